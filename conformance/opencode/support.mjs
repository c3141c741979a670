// What checks work with: both clients of the SDK, and sockets as the web client opens them.

import assert from 'node:assert/strict';
import { createOpencodeClient as createFirst } from '@opencode-ai/sdk/client';
import { createOpencodeClient as createSecond } from '@opencode-ai/sdk/v2/client';
import WebSocket from 'ws';
import { PATIENCE_MS, settle, within } from '../_shared/facts.mjs';
import { Native } from '../_shared/native.mjs';

export class Context extends Native {
  constructor(base) {
    super(base);
    this.atEnd = [];
    this.move(base);
  }

  /** From now on it is about this server. */
  move(base) {
    this.base = base;
    this.url = `${base}/opencode`;
    /** The entry `@opencode-ai/sdk`. */
    this.first = this.client(createFirst);
    /** The entry `@opencode-ai/sdk/v2`. */
    this.second = this.client(createSecond);
  }

  client(create, options = {}) {
    return create({ baseUrl: this.url, ...options });
  }

  firstWith(options) {
    return this.client(createFirst, options);
  }

  secondWith(options) {
    return this.client(createSecond, options);
  }

  async cleanUp() {
    for (const step of this.atEnd.reverse()) await settle(step);
  }

  // ---- terminals

  /** A terminal that runs a line of sh, by the second client. */
  pty(line, options = {}) {
    return this.made(this.second, { command: '/bin/sh', args: ['-c', line], ...options });
  }

  async made(client, options) {
    const pty = data(await client.pty.create(options));
    assert.match(pty.id, /^pty_/);
    this.atEnd.push(() => this.native('DELETE', `/v1/processes/${nativeId(pty.id)}?force=true`));
    return pty;
  }

  /** Attached as the web client does it. */
  async connect(id, { cursor, surface = '', query = {}, headers = {}, url = this.url } = {}) {
    const socket = this.socket(id, { cursor, surface, query, headers, url });
    await within(PATIENCE_MS, 'the socket', socket.opened);
    return socket;
  }

  socket(id, { cursor, surface = '', query = {}, headers = {}, url = this.url } = {}) {
    const address = new URL(`${url.replace('http', 'ws')}${surface}/pty/${id}/connect`);
    if (cursor !== undefined) address.searchParams.set('cursor', cursor);
    for (const [name, value] of Object.entries(query)) address.searchParams.set(name, value);
    const socket = new Terminal(new WebSocket(address, { headers }));
    this.atEnd.push(() => socket.socket.terminate());
    return socket;
  }

  // ---- events

  /** Follows events with the SDK, and is there before it returns. */
  async events(subscribe = (options) => this.second.event.subscribe(undefined, options)) {
    const abort = new AbortController();
    this.atEnd.push(() => abort.abort());
    const events = new Events((await subscribe({ signal: abort.signal })).stream);
    await events.until('the first one', ({ type, payload }) => (type ?? payload?.type) === 'server.connected');
    return events;
  }

  // ---- sessions

  async session(options = {}) {
    const session = data(await this.second.session.create(options));
    assert.match(session.id, /^ses_/);
    this.atEnd.push(() => this.second.session.delete({ sessionID: session.id }));
    return session;
  }

  /** Runs a line in a session of its own, and answers with its part. */
  async shell(command, session) {
    const { id } = session ?? (await this.session());
    const { info, parts } = data(await this.second.session.shell({ sessionID: id, agent: 'build', command }));
    assert.deepEqual([info.role, parts.length], ['assistant', 1]);
    return parts[0];
  }

  // ---- outlive's own API

  /** Of a terminal, or of its id. */
  nativeId(pty) {
    return nativeId(pty.id ?? pty);
  }

  async raw(method, path, { body, headers = {}, url = this.url } = {}) {
    const response = await fetch(`${url}${path}`, { method, headers, body });
    const text = await response.text();
    let json;
    try {
      json = JSON.parse(text);
    } catch {
      json = undefined;
    }
    return { status: response.status, type: response.headers.get('content-type'), headers: response.headers, text, json };
  }
}

export const nativeId = (id) => id.replace(/^pty_/, 'proc_');

/** What the SDK answered, if it is no error. */
export function data(result) {
  assert.equal(result.error, undefined, `an error: ${JSON.stringify(result.error)?.slice(0, 300)}`);
  return result.data;
}

/** The error that the SDK answered, with its status. */
export function refused(result, status) {
  assert.notEqual(result.error, undefined, `no error: ${JSON.stringify(result.data)?.slice(0, 300)}`);
  assert.equal(result.response.status, status);
  return result.error;
}

/** A socket as the web client reads it: text is output, one binary frame is the word about the place, and a cursor is kept. */
export class Terminal {
  constructor(socket) {
    this.socket = socket;
    this.frames = [];
    this.controls = [];
    this.text = '';
    this.recent = '';
    this.waiting = [];
    this.opened = new Promise((resolve, reject) => {
      socket.once('open', resolve);
      socket.once('unexpected-response', (_, response) => {
        this.status = response.statusCode;
        reject(Object.assign(new Error(`refused with ${response.statusCode}`), { status: response.statusCode }));
        socket.terminate();
      });
      socket.once('error', reject);
    });
    this.opened.catch(() => {});
    this.closed = new Promise((resolve) => socket.once('close', (code, reason) => resolve({ code, reason: String(reason) })));
    socket.on('message', (bytes, isBinary) => {
      if (isBinary) {
        assert.equal(bytes[0], 0, 'every binary frame is the word about the place');
        const { cursor } = JSON.parse(bytes.subarray(1).toString());
        this.controls.push({ cursor, after: this.text.length });
        this.cursor = cursor;
      } else {
        const text = bytes.toString();
        this.recent = (this.frames.at(-1) ?? '').slice(-1000) + text;
        this.frames.push(text);
        this.text += text;
        if (this.cursor !== undefined) this.cursor += text.length;
      }
      this.waiting = this.waiting.filter((look) => !look(this.recent));
    });
  }

  send(text) {
    this.socket.send(text);
  }

  /** Waits until the text is there; or for anything else that can be seen here. */
  until(what, patience = PATIENCE_MS) {
    // Only what is new is searched: there may be megabytes before it.
    const includes = (recent) => recent.includes(what);
    const found = typeof what === 'string' ? includes : () => what(this);
    const waited = new Promise((resolve) => {
      const look = (recent) => found(recent) && (resolve(this), true);
      if (!look(this.text)) this.waiting.push(look);
    });
    return within(patience, () => `${what} in ${JSON.stringify(this.text.slice(-200))}`, waited);
  }

  /** The word about the place has come. */
  ready() {
    return this.until(({ controls }) => controls.length > 0);
  }

  end() {
    return within(PATIENCE_MS, 'the end of the socket', this.closed);
  }

  async hangUp() {
    this.socket.close();
    await this.closed;
  }
}

class Events {
  constructor(stream) {
    this.all = [];
    this.waiting = [];
    this.ended = (async () => {
      for await (const event of stream) {
        this.all.push(event);
        this.waiting = this.waiting.filter((look) => !look());
      }
      throw new Error('the stream of events ended');
    })();
    this.ended.catch(() => {});
  }

  async until(what, found) {
    const waited = new Promise((resolve) => {
      const look = () => {
        const event = this.all.find(found);
        if (event) resolve(event);
        return event !== undefined;
      };
      if (!look()) this.waiting.push(look);
    });
    const seen = () => this.all.map(({ type, payload }) => type ?? payload?.type).slice(-10);
    return within(PATIENCE_MS, () => `the event ${what}; seen: ${seen()}`, Promise.race([waited, this.ended]));
  }

  of(type, id) {
    return this.all.filter((event) => event.type === type && (id === undefined || JSON.stringify(event).includes(id)));
  }

  /** The event of this type that has this in it. */
  typed(type, id = '') {
    return this.until(`${type} ${id}`, (event) => event.type === type && JSON.stringify(event).includes(id));
  }
}

/** As a terminal shows it. */
export const onTerminal = (text) => text.replaceAll('\n', '\r\n');

export const basic = (password, user = 'opencode') => Buffer.from(`${user}:${password}`).toString('base64');
