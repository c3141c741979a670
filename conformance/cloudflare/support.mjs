// What checks work with: Cloudflare's client over both of its transports, the terminal addon, the bridge's client, and the raw protocol.

import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import './workers.mjs';
import { WebSocket } from 'ws';
import { PATIENCE_MS, eventually, settle, within } from '../_shared/facts.mjs';
import { Native } from '../_shared/native.mjs';

// Both packages look for these, as they are in a browser.
globalThis.WebSocket = WebSocket;
globalThis.location = { protocol: 'http:', host: 'a-page.example' };

const { SandboxClient, parseSSEStream } = await import('@cloudflare/sandbox');
const { SandboxAddon } = await import('@cloudflare/sandbox/xterm');
const { CloudflareSandboxClient } = await import('@openai/agents-extensions/sandbox/cloudflare');

export { WebSocket };

/** A shell that runs no start-up files of whoever started the server, as a part of a query. */
const shell = join(tmpdir(), `outlive-conformance-shell-${process.pid}`);
writeFileSync(shell, '#!/bin/sh\nexec bash --norc\n', { mode: 0o755 });
process.on('exit', () => rmSync(shell, { force: true }));
export const PLAIN = `shell=${shell}`;
export const STATELESS = '__DISABLE_SESSION__';

let numbered = 0;
export const fresh = (name = 's') => `${name}-${process.pid}-${(numbered += 1)}-${Math.random().toString(36).slice(2, 8)}`;

export class Context extends Native {
  constructor(base) {
    super(base);
    this.url = `${base}/cloudflare`;
    this.ws = this.url.replace('http', 'ws');
    this.atEnd = [];
    this.sessions = new Set();
  }

  async cleanUp() {
    const settleSoon = (step) => settle(() => within(10_000, 'cleaning up', Promise.resolve().then(step)));
    for (const step of this.atEnd.reverse()) await settleSoon(step);
    for (const sessionId of this.sessions) await settleSoon(() => this.post('/api/session/delete', { sessionId }));
  }

  // ---- the container's client

  client(options = {}) {
    return new SandboxClient({ baseUrl: this.url, retryTimeoutMs: 0, ...options });
  }

  /** The same over one socket. */
  overSocket(path = '/ws', options = {}) {
    const client = new SandboxClient({ baseUrl: this.url, transportMode: 'websocket', wsUrl: `${this.ws}${path}`, retryTimeoutMs: 0, ...options });
    this.atEnd.push(() => client.disconnect());
    return client;
  }

  /** The id of a session of this check alone. */
  session(name) {
    const id = fresh(name);
    this.sessions.add(id);
    return id;
  }

  async run(command, options) {
    return this.client().commands.execute(command, STATELESS, options);
  }

  async start(command, { sessionId = STATELESS, ...options } = {}, client = this.client()) {
    const started = await client.processes.startProcess(command, sessionId, options);
    this.atEnd.push(() => client.processes.killProcess(started.processId));
    return started;
  }

  /** Every event of a stream that ends by itself. */
  async events(stream) {
    const all = [];
    for await (const event of parseSSEStream(await stream)) all.push(event);
    return all;
  }

  // ---- the terminal

  /** A terminal as xterm.js is one to the addon, connected. `url` may be another socket of that kind. */
  addon({ sessionId = this.session('pty'), url, size = [80, 24], query = `&${PLAIN}`, ...options } = {}) {
    const screen = new Screen(...size);
    const states = [];
    const addon = new SandboxAddon({
      getWebSocketUrl: ({ sessionId: id }) => url ?? `${this.ws}/ws/pty?sessionId=${encodeURIComponent(id)}${query}`,
      onStateChange: (state, error) => states.push([state, error?.message]),
      ...options,
    });
    addon.activate(screen);
    this.atEnd.push(() => addon.dispose());
    addon.connect({ sandboxId: 'any', sessionId });
    const connected = () => eventually('connected', () => addon.state === 'connected');
    return { addon, screen, states, sessionId, connected };
  }

  /** A socket without a client. */
  async socket(url, { headers, reads = true } = {}) {
    const socket = new WebSocket(url, { headers });
    socket.binaryType = 'nodebuffer';
    const frames = [];
    const bytes = new Bytes();
    const closed = new Promise((resolve) => socket.once('close', (code) => resolve(code)));
    this.atEnd.push(() => socket.terminate());
    socket.on('error', () => {});
    socket.on('message', (data, isBinary) => {
      frames.push(isBinary ? 'binary' : JSON.parse(data.toString()));
      if (isBinary) bytes.push(data);
    });
    await new Promise((resolve, reject) => {
      socket.once('open', resolve);
      socket.once('unexpected-response', (_, response) => reject(Object.assign(new Error(`refused with ${response.statusCode}`), { response })));
      socket.once('close', () => reject(new Error('closed before it was open')));
    });
    if (!reads) socket._socket.pause();
    const say = (message) => socket.send(typeof message === 'string' || Buffer.isBuffer(message) ? message : JSON.stringify(message));
    const told = (type) => eventually(`a frame ${type}`, () => frames.find((frame) => frame.type === type));
    return { socket, frames, bytes, closed, say, told };
  }

  // ---- the bridge

  async bridge({ url = this.url, ...options } = {}) {
    const session = await new CloudflareSandboxClient({ workerUrl: url, ...options }).create();
    this.atEnd.push(() => session.close());
    return session;
  }

  async sandboxId() {
    const { json } = await this.post('/v1/sandbox', undefined);
    assert.match(json.id, /^[a-z2-7]{26}$/);
    this.atEnd.push(() => this.raw('DELETE', `/v1/sandbox/${json.id}`));
    return json.id;
  }

  /** A command over the bridge, raw: what it printed as bytes. */
  async exec(id, argv, { headers = {}, ...more } = {}) {
    const answer = await this.post(`/v1/sandbox/${id}/exec`, { argv, ...more }, headers);
    assert.equal(answer.status, 200, answer.text);
    const events = answer.text.split('\n\n').filter((part) => part.startsWith('event: ')).map((part) => {
      const [, name, data] = part.match(/^event: (\S+)\ndata: (.*)$/);
      return { name, data };
    });
    const of = (stream) => Buffer.concat(events.filter(({ name }) => name === stream).map(({ data }) => Buffer.from(data, 'base64')));
    const end = events.at(-1);
    return { events, stdout: of('stdout'), stderr: of('stderr'), end: { name: end?.name, ...JSON.parse(end?.data ?? '{}') } };
  }

  // ---- raw

  async raw(method, path, { headers = {}, body, url = this.url } = {}) {
    const response = await fetch(`${url}${path}`, { method, headers, body });
    const bytes = Buffer.from(await response.arrayBuffer());
    const text = bytes.toString();
    let json;
    try {
      json = JSON.parse(text);
    } catch {
      json = undefined;
    }
    return { status: response.status, headers: response.headers, bytes, text, json };
  }

  post(path, body, headers = {}, url = this.url) {
    const sent = body === undefined ? undefined : JSON.stringify(body);
    return this.raw('POST', path, { headers: { ...(sent === undefined ? {} : { 'content-type': 'application/json' }), ...headers }, body: sent, url });
  }

  // ---- outlive's own API

  /** The native view of a process that this dialect knows by an id. */
  async info(processId) {
    const { processes } = await this.native('GET', '/v1/processes');
    const found = processes.findLast((process) => process.id === processId || process.annotations?.['cloudflare.process'] === processId);
    assert.ok(found, `${processId} is not known to the native API`);
    return found;
  }
}

/** As much of xterm.js as the addon uses. */
class Screen {
  constructor(cols, rows) {
    Object.assign(this, { cols, rows, seen: new Bytes(), clears: 0, typed: new Set(), resized: new Set() });
  }

  onData(listener) {
    this.typed.add(listener);
    return { dispose: () => this.typed.delete(listener) };
  }

  onResize(listener) {
    this.resized.add(listener);
    return { dispose: () => this.resized.delete(listener) };
  }

  write(data) {
    this.seen.push(Buffer.from(data));
  }

  clear() {
    this.clears += 1;
    this.seen.forget();
  }

  focus() {}

  type(text) {
    for (const listener of this.typed) listener(text);
  }

  resize(cols, rows) {
    Object.assign(this, { cols, rows });
    for (const listener of this.resized) listener({ cols, rows });
  }
}

/** Bytes that come in, and a wait for a text in them. */
export class Bytes {
  constructor() {
    this.parts = [];
    this.length = 0;
  }

  push(chunk) {
    this.parts.push(chunk);
    this.length += chunk.length;
  }

  forget() {
    this.parts = [];
    this.length = 0;
  }

  all() {
    if (this.parts.length > 1) this.parts = [Buffer.concat(this.parts)];
    return this.parts[0] ?? Buffer.alloc(0);
  }

  text() {
    return this.all().toString('latin1');
  }

  until(text) {
    return eventually(JSON.stringify(text), () => this.text().includes(text)).catch((error) => {
      throw new Error(`${error.message} in ${JSON.stringify(this.text().slice(-200))}`);
    });
  }
}

/** A command on a terminal of the bridge's client, which hands its output out in turns. */
export async function onTerminal(session, cmd) {
  let said = await session.execCommand({ cmd, tty: true, yieldTimeMs: 500 });
  const sessionId = Number(said.match(/session ID (\d+)/)?.[1]);
  const type = async (chars) => {
    said += await session.writeStdin({ sessionId, chars, yieldTimeMs: 500 });
  };
  // Each turn waits by itself, and a shell may take its time to begin.
  const until = async (pattern) => {
    for (const end = Date.now() + PATIENCE_MS; !pattern.test(said); await type('')) {
      if (Date.now() > end) throw new Error(`never came: ${pattern} in ${JSON.stringify(said)}`);
    }
  };
  return { type, until };
}

/** node's own client: unlike fetch it reads only when it is asked to. */
export function open(url, { method = 'POST', body, headers = {} } = {}) {
  return new Promise((resolve, reject) => {
    const all = { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers };
    const request = http.request(url, { method, headers: all, agent: false }, (response) => resolve({ response, request }));
    request.on('error', reject);
    request.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

export { parseSSEStream };

export const textOf = (events, type = 'stdout') => events.filter((event) => event.type === type).map(({ data }) => data).join('');
