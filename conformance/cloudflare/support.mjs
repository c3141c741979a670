// The context of a check: Cloudflare's client over both transports, the terminal addon, the bridge's client, and raw
// requests.

import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import './workers.mjs';
import { WebSocket } from 'ws';
import { TIMEOUT_MS, eventually, ignoreErrors, withTimeout } from '../_shared/expect.mjs';
import { Native } from '../_shared/native.mjs';

// Both packages expect these browser globals.
globalThis.WebSocket = WebSocket;
globalThis.location = { protocol: 'http:', host: 'a-page.example' };

const { SandboxClient, parseSSEStream } = await import('@cloudflare/sandbox');
const { SandboxAddon } = await import('@cloudflare/sandbox/xterm');
const { CloudflareSandboxClient } = await import('@openai/agents-extensions/sandbox/cloudflare');

export { WebSocket };

/** Query parameter for a shell that does not run the start-up files of the server's user. */
const shell = join(tmpdir(), `outlive-conformance-shell-${process.pid}`);
writeFileSync(shell, '#!/bin/sh\nexec bash --norc\n', { mode: 0o755 });
process.on('exit', () => rmSync(shell, { force: true }));
export const PLAIN_SHELL_QUERY = `shell=${shell}`;
export const STATELESS = '__DISABLE_SESSION__';

let nameCount = 0;
export const uniqueName = (name = 's') => `${name}-${process.pid}-${(nameCount += 1)}-${Math.random().toString(36).slice(2, 8)}`;

export class Context extends Native {
  constructor(base) {
    super(base);
    this.url = `${base}/cloudflare`;
    this.ws = this.url.replace('http', 'ws');
    this.cleanUpSteps = [];
    this.sessions = new Set();
  }

  async cleanUp() {
    const runStep = (step) => ignoreErrors(() => withTimeout(10_000, 'cleaning up', Promise.resolve().then(step)));
    for (const step of this.cleanUpSteps.reverse()) await runStep(step);
    for (const sessionId of this.sessions) await runStep(() => this.post('/api/session/delete', { sessionId }));
  }

  // ---- the container client

  client(options = {}) {
    return new SandboxClient({ baseUrl: this.url, retryTimeoutMs: 0, ...options });
  }

  /** The same client over one WebSocket. */
  overSocket(path = '/ws', options = {}) {
    const client = new SandboxClient({ baseUrl: this.url, transportMode: 'websocket', wsUrl: `${this.ws}${path}`, retryTimeoutMs: 0, ...options });
    this.cleanUpSteps.push(() => client.disconnect());
    return client;
  }

  /** The id of a session for this check alone. */
  session(name) {
    const id = uniqueName(name);
    this.sessions.add(id);
    return id;
  }

  async run(command, options) {
    return this.client().commands.execute(command, STATELESS, options);
  }

  async start(command, { sessionId = STATELESS, ...options } = {}, client = this.client()) {
    const started = await client.processes.startProcess(command, sessionId, options);
    this.cleanUpSteps.push(() => client.processes.killProcess(started.processId));
    return started;
  }

  /** Collects all events of a stream that ends by itself. */
  async events(stream) {
    const all = [];
    for await (const event of parseSSEStream(await stream)) all.push(event);
    return all;
  }

  // ---- the terminal

  /** A connected addon with a fake xterm.js terminal. `url` may name another terminal socket. */
  addon({ sessionId = this.session('pty'), url, size = [80, 24], query = `&${PLAIN_SHELL_QUERY}`, ...options } = {}) {
    const screen = new Screen(...size);
    const states = [];
    const addon = new SandboxAddon({
      getWebSocketUrl: ({ sessionId: id }) => url ?? `${this.ws}/ws/pty?sessionId=${encodeURIComponent(id)}${query}`,
      onStateChange: (state, error) => states.push([state, error?.message]),
      ...options,
    });
    addon.activate(screen);
    this.cleanUpSteps.push(() => addon.dispose());
    addon.connect({ sandboxId: 'any', sessionId });
    const connected = () => eventually('connected', () => addon.state === 'connected');
    return { addon, screen, states, sessionId, connected };
  }

  /** A WebSocket without an official client. */
  async socket(url, { headers, reads = true } = {}) {
    const socket = new WebSocket(url, { headers });
    socket.binaryType = 'nodebuffer';
    const frames = [];
    const bytes = new Bytes();
    const closed = new Promise((resolve) => socket.once('close', (code) => resolve(code)));
    this.cleanUpSteps.push(() => socket.terminate());
    socket.on('error', () => {});
    socket.on('message', (data, isBinary) => {
      frames.push(isBinary ? 'binary' : JSON.parse(data.toString()));
      if (isBinary) bytes.push(data);
    });
    await new Promise((resolve, reject) => {
      socket.once('open', resolve);
      socket.once('unexpected-response', (_, response) => reject(Object.assign(new Error(`refused with ${response.statusCode}`), { response })));
      socket.once('close', () => reject(new Error('the socket closed before it opened')));
    });
    if (!reads) socket._socket.pause();
    const send = (message) => socket.send(typeof message === 'string' || Buffer.isBuffer(message) ? message : JSON.stringify(message));
    const waitForFrame = (type) => eventually(`a frame ${type}`, () => frames.find((frame) => frame.type === type));
    return { socket, frames, bytes, closed, send, waitForFrame };
  }

  // ---- the bridge

  async bridge({ url = this.url, ...options } = {}) {
    const session = await new CloudflareSandboxClient({ workerUrl: url, ...options }).create();
    this.cleanUpSteps.push(() => session.close());
    return session;
  }

  async sandboxId() {
    const { json } = await this.post('/v1/sandbox', undefined);
    assert.match(json.id, /^[a-z2-7]{26}$/);
    this.cleanUpSteps.push(() => this.raw('DELETE', `/v1/sandbox/${json.id}`));
    return json.id;
  }

  /** Runs a command over the bridge with a raw request. Returns its output as bytes. */
  async exec(id, argv, { headers = {}, ...more } = {}) {
    const reply = await this.post(`/v1/sandbox/${id}/exec`, { argv, ...more }, headers);
    assert.equal(reply.status, 200, reply.text);
    const events = reply.text.split('\n\n').filter((part) => part.startsWith('event: ')).map((part) => {
      const [, name, data] = part.match(/^event: (\S+)\ndata: (.*)$/);
      return { name, data };
    });
    const bytesOf = (stream) => Buffer.concat(events.filter(({ name }) => name === stream).map(({ data }) => Buffer.from(data, 'base64')));
    const end = events.at(-1);
    return { events, stdout: bytesOf('stdout'), stderr: bytesOf('stderr'), end: { name: end?.name, ...JSON.parse(end?.data ?? '{}') } };
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

  // ---- outlive's native API

  /** The native record of a process with this id of the dialect. */
  async info(processId) {
    const { processes } = await this.native('GET', '/v1/processes');
    const found = processes.findLast((process) => process.id === processId || process.annotations?.['cloudflare.process'] === processId);
    assert.ok(found, `the native API does not list ${processId}`);
    return found;
  }
}

/** The part of xterm.js that the addon uses. */
class Screen {
  constructor(cols, rows) {
    Object.assign(this, { cols, rows, seen: new Bytes(), clears: 0, dataListeners: new Set(), resizeListeners: new Set() });
  }

  onData(listener) {
    this.dataListeners.add(listener);
    return { dispose: () => this.dataListeners.delete(listener) };
  }

  onResize(listener) {
    this.resizeListeners.add(listener);
    return { dispose: () => this.resizeListeners.delete(listener) };
  }

  write(data) {
    this.seen.push(Buffer.from(data));
  }

  clear() {
    this.clears += 1;
    this.seen.reset();
  }

  focus() {}

  type(text) {
    for (const listener of this.dataListeners) listener(text);
  }

  resize(cols, rows) {
    Object.assign(this, { cols, rows });
    for (const listener of this.resizeListeners) listener({ cols, rows });
  }
}

/** Collects received bytes and waits for text in them. */
export class Bytes {
  constructor() {
    this.parts = [];
    this.length = 0;
  }

  push(chunk) {
    this.parts.push(chunk);
    this.length += chunk.length;
  }

  reset() {
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

  waitFor(text) {
    return eventually(JSON.stringify(text), () => this.text().includes(text)).catch((error) => {
      throw new Error(`${error.message} in ${JSON.stringify(this.text().slice(-200))}`);
    });
  }
}

/** Starts a command on a terminal of the bridge's client, which returns its output call by call. */
export async function startTerminal(session, cmd) {
  let output = await session.execCommand({ cmd, tty: true, yieldTimeMs: 500 });
  const sessionId = Number(output.match(/session ID (\d+)/)?.[1]);
  const type = async (chars) => {
    output += await session.writeStdin({ sessionId, chars, yieldTimeMs: 500 });
  };
  // Each call waits for output, and a shell may be slow to start.
  const waitFor = async (pattern) => {
    for (const deadline = Date.now() + TIMEOUT_MS; !pattern.test(output); await type('')) {
      if (Date.now() > deadline) throw new Error(`timed out waiting for ${pattern} in ${JSON.stringify(output)}`);
    }
  };
  return { type, waitFor };
}

/** Uses node:http, which unlike fetch reads only on demand. */
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
