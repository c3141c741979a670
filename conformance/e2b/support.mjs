// The context of a check: the SDK's sandbox and raw requests.

import assert from 'node:assert/strict';
import http from 'node:http';
import { Sandbox } from 'e2b';
import { TIMEOUT_MS, ignoreErrors, withTimeout } from '../_shared/expect.mjs';
import { Native } from '../_shared/native.mjs';

/** Every command is a login shell. With another HOME it would run the profile of the server's user. */
export const HOME = '/tmp';

export class Context extends Native {
  constructor(base) {
    super(base);
    this.url = `${base}/e2b`;
    this.cleanUpSteps = [];
    this.pids = new Set();
  }

  async cleanUp() {
    for (const pid of this.pids) await ignoreErrors(() => this.call('SendSignal', { process: { pid }, signal: 9 }));
    for (const step of this.cleanUpSteps.reverse()) await ignoreErrors(step);
  }

  // ---- the SDK

  /** The SDK's debug mode needs no control plane. */
  async sandbox(url = this.url) {
    return Sandbox.connect('any-id', { debug: true, sandboxUrl: url });
  }

  async run(command, options = {}) {
    const sandbox = await this.sandbox();
    return sandbox.commands.run(command, { ...options, envs: { HOME, ...options.envs } });
  }

  async background(command, options = {}) {
    const handle = await this.run(command, { timeoutMs: 0, ...options, background: true });
    this.pids.add(handle.pid);
    return handle;
  }

  async terminal(options = {}) {
    const sandbox = await this.sandbox();
    const seen = new Bytes();
    const handle = await sandbox.pty.create({
      cols: 80,
      rows: 24,
      timeoutMs: 0,
      ...options,
      envs: { HOME, PS1: '', ...options.envs },
      onData: (data) => seen.push(data),
    });
    this.pids.add(handle.pid);
    const type = (text) => sandbox.pty.sendInput(handle.pid, Buffer.from(text));
    return { sandbox, handle, seen, type };
  }

  // ---- the raw protocol, where the SDK has no call

  async call(method, message, { headers = {}, codec = 'json', url = this.url } = {}) {
    const response = await fetch(`${url}/process.Process/${method}`, {
      method: 'POST',
      headers: { 'content-type': `application/${codec}`, 'connect-protocol-version': '1', ...headers },
      body: codec === 'json' && !(message instanceof Uint8Array) ? JSON.stringify(message) : message,
    });
    const bytes = Buffer.from(await response.arrayBuffer());
    let json;
    try {
      json = JSON.parse(bytes.toString());
    } catch {
      json = undefined;
    }
    return { status: response.status, type: response.headers.get('content-type'), headers: response.headers, bytes, json };
  }

  /** Opens a stream. `envelopes` is an async iterator; `abort` disconnects. */
  async stream(method, messages, { headers = {}, codec = 'json', url = this.url, body } = {}) {
    const sent = body ?? Buffer.concat([].concat(messages).map((message) => envelope(0, encode(message))));
    const { response, request } = await post(`${url}/process.Process/${method}`, sent, {
      'content-type': `application/connect+${codec}`,
      'connect-protocol-version': '1',
      ...headers,
    });
    this.cleanUpSteps.push(() => request.destroy());
    return {
      status: response.statusCode,
      headers: response.headers,
      envelopes: envelopes(response),
      response,
      abort: () => request.destroy(),
    };
  }

  /** Collects a stream that ends by itself: its events and its end envelope. */
  async collectStream(method, messages, options) {
    const stream = await this.stream(method, messages, options);
    assert.equal(stream.status, 200, 'streams always have status 200');
    const events = [];
    for await (const { flags, payload } of stream.envelopes) {
      const json = JSON.parse(payload.toString());
      if (flags === 2) return { events, end: json, headers: stream.headers };
      assert.equal(flags, 0);
      events.push(json.event);
    }
    throw new Error('the stream ended without an end envelope');
  }

  start(cmd, args = [], more = {}) {
    const { tag, pty, stdin, ...config } = more;
    return { process: { cmd, args, envs: { HOME }, ...config }, tag, pty, stdin };
  }

  // ---- outlive's native API

  nativeId(pid) {
    return `pid:${pid}`;
  }

  info(pid) {
    return this.native('GET', `/v1/processes/pid:${pid}`);
  }
}

// ---- envelopes

const encode = (message) => (Buffer.isBuffer(message) ? message : Buffer.from(JSON.stringify(message)));

export function envelope(flags, payload) {
  const head = Buffer.alloc(5);
  head.writeUInt8(flags, 0);
  head.writeUInt32BE(payload.length, 1);
  return Buffer.concat([head, payload]);
}

export async function* envelopes(readable) {
  let rest = Buffer.alloc(0);
  for await (const chunk of readable) {
    rest = Buffer.concat([rest, chunk]);
    while (rest.length >= 5 && rest.length >= 5 + rest.readUInt32BE(1)) {
      const length = rest.readUInt32BE(1);
      yield { flags: rest.readUInt8(0), payload: rest.subarray(5, 5 + length) };
      rest = rest.subarray(5 + length);
    }
  }
  assert.equal(rest.length, 0, 'the last envelope is incomplete');
}

/** Uses node:http, which unlike fetch reads only on demand. `write` sends more before the end. */
export function post(url, body, headers, { write } = {}) {
  return new Promise((resolve, reject) => {
    const request = http.request(url, { method: 'POST', headers, agent: false }, (response) => resolve({ response, request }));
    request.on('error', reject);
    if (write) write(request).then(() => request.end(), reject);
    else request.end(body);
  });
}

export const data = (events, stream = 'stdout') =>
  Buffer.concat(events.filter((event) => event.data?.[stream]).map((event) => Buffer.from(event.data[stream], 'base64')));

/** Collects received bytes and waits for text in them. */
export class Bytes {
  constructor() {
    this.all = Buffer.alloc(0);
    this.waiters = [];
  }

  push(chunk) {
    this.all = Buffer.concat([this.all, chunk]);
    this.waiters = this.waiters.filter((check) => !check());
  }

  text() {
    return this.all.toString('latin1');
  }

  waitFor(text) {
    return withTimeout(TIMEOUT_MS, `${JSON.stringify(text)} in ${JSON.stringify(this.text().slice(-200))}`, new Promise((resolve) => {
      const check = () => this.text().includes(text) && (resolve(), true);
      if (!check()) this.waiters.push(check);
    }));
  }
}
