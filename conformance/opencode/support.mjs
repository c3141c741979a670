// The context of a check: both clients of the SDK, and sockets opened like the web client.

import assert from 'node:assert/strict';
import { createOpencodeClient as createV1 } from '@opencode-ai/sdk/client';
import { createOpencodeClient as createV2 } from '@opencode-ai/sdk/v2/client';
import WebSocket from 'ws';
import { TIMEOUT_MS, ignoreErrors, withTimeout } from '../_shared/expect.mjs';
import { Native } from '../_shared/native.mjs';

export class Context extends Native {
  constructor(base) {
    super(base);
    this.cleanUpSteps = [];
    this.useServer(base);
  }

  /** Makes the following calls go to this server. */
  useServer(base) {
    this.base = base;
    this.url = `${base}/opencode`;
    /** The client of `@opencode-ai/sdk`. */
    this.sdkV1 = this.client(createV1);
    /** The client of `@opencode-ai/sdk/v2`. */
    this.sdkV2 = this.client(createV2);
  }

  client(create, options = {}) {
    return create({ baseUrl: this.url, ...options });
  }

  sdkV1With(options) {
    return this.client(createV1, options);
  }

  sdkV2With(options) {
    return this.client(createV2, options);
  }

  async cleanUp() {
    for (const step of this.cleanUpSteps.reverse()) await ignoreErrors(step);
  }

  // ---- terminals

  /** Creates a terminal that runs a line of sh, with the v2 client. */
  pty(line, options = {}) {
    return this.createPty(this.sdkV2, { command: '/bin/sh', args: ['-c', line], ...options });
  }

  async createPty(client, options) {
    const pty = data(await client.pty.create(options));
    assert.match(pty.id, /^pty_/);
    this.cleanUpSteps.push(() => this.native('DELETE', `/v1/processes/${nativeId(pty.id)}?force=true`));
    return pty;
  }

  /** Attaches like the web client. */
  async connect(id, { cursor, surface = '', query = {}, headers = {}, url = this.url } = {}) {
    const socket = this.socket(id, { cursor, surface, query, headers, url });
    await withTimeout(TIMEOUT_MS, 'the socket', socket.opened);
    return socket;
  }

  socket(id, { cursor, surface = '', query = {}, headers = {}, url = this.url } = {}) {
    const address = new URL(`${url.replace('http', 'ws')}${surface}/pty/${id}/connect`);
    if (cursor !== undefined) address.searchParams.set('cursor', cursor);
    for (const [name, value] of Object.entries(query)) address.searchParams.set(name, value);
    const socket = new Terminal(new WebSocket(address, { headers }));
    this.cleanUpSteps.push(() => socket.socket.terminate());
    return socket;
  }

  // ---- events

  /** Follows events with the SDK. Returns after the first event. */
  async events(subscribe = (options) => this.sdkV2.event.subscribe(undefined, options)) {
    const abort = new AbortController();
    this.cleanUpSteps.push(() => abort.abort());
    const events = new Events((await subscribe({ signal: abort.signal })).stream);
    await events.waitFor('the first event', ({ type, payload }) => (type ?? payload?.type) === 'server.connected');
    return events;
  }

  // ---- sessions

  async session(options = {}) {
    const session = data(await this.sdkV2.session.create(options));
    assert.match(session.id, /^ses_/);
    this.cleanUpSteps.push(() => this.sdkV2.session.delete({ sessionID: session.id }));
    return session;
  }

  /** Runs a line in a session, a new one by default, and returns the resulting part. */
  async shell(command, session) {
    const { id } = session ?? (await this.session());
    const { info, parts } = data(await this.sdkV2.session.shell({ sessionID: id, agent: 'build', command }));
    assert.deepEqual([info.role, parts.length], ['assistant', 1]);
    return parts[0];
  }

  // ---- outlive's native API

  /** Accepts a terminal or its id. */
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

/** Returns the data of an SDK result that must not be an error. */
export function data(result) {
  assert.equal(result.error, undefined, `an error: ${JSON.stringify(result.error)?.slice(0, 300)}`);
  return result.data;
}

/** Returns the error of an SDK result that must have this status. */
export function expectError(result, status) {
  assert.notEqual(result.error, undefined, `no error: ${JSON.stringify(result.data)?.slice(0, 300)}`);
  assert.equal(result.response.status, status);
  return result.error;
}

/**
 * A socket read like the web client does: text frames are output, one binary frame is the cursor, and each text
 * advances it.
 */
export class Terminal {
  constructor(socket) {
    this.socket = socket;
    this.frames = [];
    this.controls = [];
    this.text = '';
    this.recent = '';
    this.waiters = [];
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
        assert.equal(bytes[0], 0, 'every binary frame is a cursor frame');
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
      this.waiters = this.waiters.filter((check) => !check(this.recent));
    });
  }

  send(text) {
    this.socket.send(text);
  }

  /** Waits for a text in the output, or for a condition on this terminal. */
  waitFor(what, timeoutMs = TIMEOUT_MS) {
    // Searches only new output, because there may be megabytes before it.
    const includes = (recent) => recent.includes(what);
    const found = typeof what === 'string' ? includes : () => what(this);
    const waited = new Promise((resolve) => {
      const check = (recent) => found(recent) && (resolve(this), true);
      if (!check(this.text)) this.waiters.push(check);
    });
    return withTimeout(timeoutMs, () => `${what} in ${JSON.stringify(this.text.slice(-200))}`, waited);
  }

  /** Waits for the cursor frame. */
  ready() {
    return this.waitFor(({ controls }) => controls.length > 0);
  }

  waitForClose() {
    return withTimeout(TIMEOUT_MS, 'the end of the socket', this.closed);
  }

  async disconnect() {
    this.socket.close();
    await this.closed;
  }
}

class Events {
  constructor(stream) {
    this.all = [];
    this.waiters = [];
    this.ended = (async () => {
      for await (const event of stream) {
        this.all.push(event);
        this.waiters = this.waiters.filter((check) => !check());
      }
      throw new Error('the event stream ended');
    })();
    this.ended.catch(() => {});
  }

  async waitFor(what, found) {
    const waited = new Promise((resolve) => {
      const check = () => {
        const event = this.all.find(found);
        if (event) resolve(event);
        return event !== undefined;
      };
      if (!check()) this.waiters.push(check);
    });
    const seen = () => this.all.map(({ type, payload }) => type ?? payload?.type).slice(-10);
    return withTimeout(TIMEOUT_MS, () => `the event ${what}; seen: ${seen()}`, Promise.race([waited, this.ended]));
  }

  withType(type, id) {
    return this.all.filter((event) => event.type === type && (id === undefined || JSON.stringify(event).includes(id)));
  }

  /** Waits for an event of this type whose JSON contains `id`. */
  waitForType(type, id = '') {
    return this.waitFor(`${type} ${id}`, (event) => event.type === type && JSON.stringify(event).includes(id));
  }
}

/** Converts newlines like a terminal. */
export const withTerminalNewlines = (text) => text.replaceAll('\n', '\r\n');

export const basic = (password, user = 'opencode') => Buffer.from(`${user}:${password}`).toString('base64');
