// Runs in the page: all vectors by which a page can send requests, each with the same goals.
//
// A vector is `(target, goals) => responses`: everything that the script could read, as `{status, text}`. It resolves
// when the browser has finished all its requests (except beacons, whose end a page cannot observe).

/* exported vectors */
const vectors = (() => {
  /** The requests for the goals. Marker files and input contain the name of the vector. */
  function requests(target, goals, vector) {
    const process = `/v1/processes/${target.process}`;
    const touch = { command: 'touch', args: [`${target.markers}/${vector}`] };
    const all = {
      list: { method: 'GET', path: '/v1/processes' },
      output: { method: 'GET', path: `${process}/output` },
      ticket: { method: 'POST', path: '/v1/tickets', json: { processId: target.process } },
      create: { method: 'POST', path: '/v1/processes', json: { ...touch, label: '' } },
      run: { method: 'POST', path: '/v1/processes/run', json: { ...touch, stdin: '' } },
      input: { method: 'POST', path: `${process}/input`, json: { encoding: 'utf8', data: `${vector}\n` } },
      kill: { method: 'POST', path: `${process}/kill` },
    };
    return goals.map((goal) => {
      const { json, ...request } = all[goal];
      return { ...request, url: target.base + request.path, body: json && JSON.stringify(json) };
    });
  }

  const TYPES = ['application/json', 'text/plain'];

  /** With and without the token, as JSON and as a content type that needs no preflight. */
  function variants(target) {
    return [undefined, target.token].flatMap((token) => TYPES.map((type) => ({ token, type })));
  }

  function headersOf({ token, type }, body) {
    const headers = {};
    if (token) headers.authorization = `Bearer ${token}`;
    if (body) headers['content-type'] = type;
    return headers;
  }

  async function fetchAll(target, goals, vector, mode, rewrite = (url) => url) {
    const read = [];
    for (const variant of variants(target)) {
      for (const { method, url, body } of requests(target, goals, vector)) {
        try {
          const response = await fetch(rewrite(url), { method, mode, body, headers: headersOf(variant, body) });
          const text = await response.text();
          if (response.type !== 'opaque') read.push({ status: response.status, text });
        } catch {
          // The browser does not let the page read the response.
        }
      }
    }
    return read;
  }

  async function xhr(target, goals) {
    const read = [];
    for (const variant of variants(target)) {
      for (const { method, url, body } of requests(target, goals, 'xhr')) {
        await new Promise((done) => {
          const request = new XMLHttpRequest();
          request.open(method, url);
          for (const [name, value] of Object.entries(headersOf(variant, body))) request.setRequestHeader(name, value);
          request.onload = () => read.push({ status: request.status, text: request.responseText });
          request.onloadend = done;
          request.send(body);
        });
      }
    }
    return read;
  }

  const ENCTYPES = ['application/x-www-form-urlencoded', 'text/plain', 'multipart/form-data'];

  function formFor({ url, body }, enctype) {
    const form = document.createElement('form');
    Object.assign(form, { method: 'POST', action: url, enctype });
    // As text/plain this is sent as NAME=VALUE. The JSON is split inside its last string, where a `=` is valid.
    const cut = body ? body.length - 2 : 0;
    const field = document.createElement('input');
    Object.assign(field, { type: 'hidden', name: (body ?? '').slice(0, cut) || 'x', value: (body ?? '').slice(cut) });
    form.append(field);
    document.body.append(form);
    return form;
  }

  /** Creates a frame, lets `load` navigate it, and returns what the page can read of it. */
  async function inFrame(load) {
    const frame = document.createElement('iframe');
    frame.name = `frame${document.querySelectorAll('iframe').length}`;
    document.body.append(frame);
    const loaded = new Promise((resolve) => frame.addEventListener('load', resolve, { once: true }));
    load(frame);
    await loaded;
    try {
      const text = frame.contentDocument?.body?.innerText;
      return text ? [{ status: null, text }] : [];
    } catch {
      return [];
    }
  }

  async function forms(target, goals, vector, rewrite = (url) => url) {
    const read = [];
    for (const enctype of ENCTYPES) {
      for (const request of requests(target, goals, vector).filter(({ method }) => method === 'POST')) {
        const form = formFor({ ...request, url: rewrite(request.url) }, enctype);
        read.push(
          ...(await inFrame((frame) => {
            form.target = frame.name;
            form.submit();
          })),
        );
      }
    }
    return read;
  }

  const LOADERS = { img: 'src', script: 'src', link: 'href', video: 'src', object: 'data' };

  async function elements(target) {
    const read = [];
    const process = `${target.base}/v1/processes/${target.process}`;
    const credential = `access_token=${target.token}`;
    const addresses = [
      `${target.base}/v1/processes`,
      `${process}/output`,
      `${process}/kill`,
      `${process}/connect?${credential}`,
    ];
    for (const address of addresses) {
      for (const [name, attribute] of Object.entries(LOADERS)) {
        await new Promise((done) => {
          const element = document.createElement(name);
          if (name === 'link') element.rel = 'stylesheet';
          element[attribute] = address;
          element.onerror = done;
          element.onload = element.onloadedmetadata = () =>
            done(read.push({ status: null, text: `${name} ${address}` }));
          document.body.append(element);
        });
      }
      read.push(...(await inFrame((frame) => (frame.src = address))));
    }
    return read;
  }

  function beacon(target, goals) {
    for (const type of [...TYPES, ENCTYPES[0]]) {
      for (const { method, url, body } of requests(target, goals, 'beacon')) {
        if (method === 'POST') navigator.sendBeacon(url, new Blob([body ?? ''], { type }));
      }
    }
    return [];
  }

  async function eventSource(target) {
    const read = [];
    const addresses = ['/v1/events?', `/v1/processes/${target.process}/logs?follow=true&`];
    for (const address of addresses.flatMap((path) => [path, `${path}access_token=${target.token}`])) {
      const source = new EventSource(target.base + address);
      await new Promise((done) => {
        const onEvent = (event) => done(read.push({ status: null, text: `${event.type} ${event.data ?? ''}` }));
        source.onerror = done;
        for (const type of ['message', 'log', 'process.created']) source.addEventListener(type, onEvent);
        // The stream of all events is silent until something happens; opening it is already a success.
        if (address.startsWith('/v1/events')) source.onopen = onEvent;
      });
      source.close();
    }
    return read;
  }

  async function webSocket(target, goals) {
    const read = [];
    for (const [path, ticket] of Object.entries(target.tickets)) {
      for (const credential of [`ticket=${ticket}`, `access_token=${target.token}`, 'role=viewer', '']) {
        const address = `${target.base}/v1/processes/${target.process}/${path}?tail=1000&${credential}`;
        await attach(address.replace(/^http/, 'ws'), goals, read);
      }
    }
    return read;
  }

  /** Sends input as soon as the socket opens, and closes it when the input is echoed or refused. */
  function attach(address, goals, read) {
    return new Promise((done) => {
      const socket = new WebSocket(address);
      socket.binaryType = 'arraybuffer';
      let seen = '';
      socket.onopen = () => {
        read.push({ status: 101, text: address });
        socket.send(JSON.stringify({ type: 'input', data: 'webSocket\n', encoding: 'utf8' }));
        if (goals.includes('kill')) socket.send(JSON.stringify({ type: 'signal', signal: 'SIGKILL' }));
      };
      socket.onmessage = ({ data }) => {
        const text = typeof data === 'string' ? data : new TextDecoder().decode(data);
        read.push({ status: null, text });
        seen += text;
        if (seen.includes('webSocket') || seen.includes('"error"')) socket.close();
      };
      socket.onclose = done;
    });
  }

  return {
    fetch: (target, goals) => fetchAll(target, goals, 'fetch', 'cors'),
    fetchNoCors: (target, goals) => fetchAll(target, goals, 'fetchNoCors', 'no-cors'),
    fetchRedirected: (target, goals) => fetchAll(target, goals, 'fetchRedirected', 'cors', target.redirected),
    xhr,
    form: (target, goals) => forms(target, goals, 'form'),
    formRedirected: (target, goals) => forms(target, goals, 'formRedirected', target.redirected),
    elements,
    beacon,
    eventSource,
    webSocket,
    /** The same form, but the response replaces the page. */
    submitFromTop: (target, goal) => formFor(requests(target, [goal], 'top')[0], 'text/plain').submit(),
  };
})();
