// The context of a check: the SDK's adapters, and raw HTTP and sockets where they have no call.

import assert from 'node:assert/strict';
import http from 'node:http';
import { CommandsAdapter, HealthAdapter, MetricsAdapter, createExecdClient } from '@alibaba-group/opensandbox/internal';
import WebSocket from 'ws';
import { TIMEOUT_MS, eventually, ignoreErrors, withTimeout } from '../_shared/expect.mjs';
import { Native } from '../_shared/native.mjs';

export class Context extends Native {
  constructor(base) {
    super(base);
    this.url = `${base}/opensandbox`;
    this.cleanUpSteps = [];
    this.ids = new Set();
  }

  async cleanUp() {
    for (const id of this.ids) await ignoreErrors(() => fetch(`${this.url}/pty/${id}`, { method: 'DELETE' }));
    for (const step of this.cleanUpSteps.reverse()) await ignoreErrors(step);
  }

  // ---- the SDK

  sdk(url = this.url, headers = {}) {
    const client = createExecdClient({ baseUrl: url, headers });
    return {
      commands: new CommandsAdapter(client, { baseUrl: url, headers }),
      health: new HealthAdapter(client),
      metrics: new MetricsAdapter(client),
    };
  }

  get commands() {
    return this.sdk().commands;
  }

  /** Runs a command and joins its lines like users of this SDK do. */
  async run(command, options = {}) {
    const execution = await this.commands.run(command, options);
    assert.ok(execution.id, 'every stream starts with an id');
    return { ...execution, out: joined(execution.logs.stdout), err: joined(execution.logs.stderr) };
  }

  /** Starts a background command and returns its id. */
  async background(command, options = {}) {
    const { id } = await this.commands.run(command, { ...options, background: true });
    assert.ok(id);
    this.ids.add(id);
    return id;
  }

  async waitForEnd(id) {
    return eventually(`the end of ${id}`, async () => {
      const status = await this.commands.getCommandStatus(id);
      assert.equal(typeof status.running, 'boolean');
      return status.running ? undefined : status;
    });
  }

  // ---- raw HTTP, where the SDK has no call

  async http(method, path, { body, headers = {}, url = this.url } = {}) {
    const kind = body === undefined ? {} : { 'content-type': 'application/json' };
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { ...kind, ...headers },
      body: body === undefined || typeof body === 'string' ? body : JSON.stringify(body),
    });
    const bytes = Buffer.from(await response.arrayBuffer());
    let json;
    try {
      json = JSON.parse(bytes.toString());
    } catch {
      json = undefined;
    }
    return { status: response.status, headers: response.headers, bytes, text: bytes.toString(), json };
  }

  /** Opens a stream of events; `abort` disconnects. Uses node:http, which unlike fetch reads only on demand. */
  async stream(method, path, body, url = this.url) {
    const { response, request } = await new Promise((resolve, reject) => {
      const headers = body === undefined ? {} : { 'content-type': 'application/json' };
      const request = http.request(`${url}${path}`, { method, headers, agent: false }, (response) => resolve({ response, request }));
      request.on('error', reject);
      request.end(body === undefined ? undefined : JSON.stringify(body));
    });
    request.on('error', () => {});
    this.cleanUpSteps.push(() => request.destroy());
    return { status: response.statusCode, headers: response.headers, response, events: events(response), abort: () => request.destroy() };
  }

  /** Collects the events of a stream that ends by itself, without pings. */
  async collectStream(method, path, body) {
    const stream = await this.stream(method, path, body);
    assert.equal(stream.status, 200);
    const all = [];
    for await (const event of stream.events) if (event.type !== 'ping') all.push(event);
    return all;
  }

  // ---- sockets

  async socket(path, { url = this.url, headers = {} } = {}) {
    const socket = new Socket(new WebSocket(`${url.replace('http', 'ws')}${path}`, { headers }));
    this.cleanUpSteps.push(() => socket.ws.terminate());
    await withTimeout(TIMEOUT_MS, `the handshake of ${path}`, socket.open);
    return socket;
  }

  /** Returns the response to a refused handshake. */
  async refusedSocket(path, options) {
    const ws = new WebSocket(`${this.url.replace('http', 'ws')}${path}`, options);
    this.cleanUpSteps.push(() => ws.terminate());
    return withTimeout(TIMEOUT_MS, 'a refusal', new Promise((resolve, reject) => {
      ws.once('open', () => reject(new Error('the handshake was accepted')));
      ws.once('error', reject);
      ws.once('unexpected-response', (_, response) => {
        let text = '';
        response.on('data', (chunk) => { text += chunk; });
        response.on('end', () => resolve({ status: response.statusCode, json: JSON.parse(text) }));
      });
    }));
  }

  /** Creates a terminal without connecting to it. */
  async pty(body = {}) {
    const { status, json } = await this.http('POST', '/pty', { body });
    assert.equal(status, 201);
    assert.match(json.session_id, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
    this.ids.add(json.session_id);
    return json.session_id;
  }

  async connect(id, query = '') {
    const socket = await this.socket(`/pty/${id}/ws${query}`);
    await socket.waitForFrame('connected');
    return socket;
  }

  /** A shell without prompt and echo that reads its input. */
  async shell(query = '') {
    const id = await this.pty();
    const socket = await this.connect(id, query);
    socket.type("stty -echo 2>/dev/null; PS1=; PS2=; echo rea''dy\n");
    await socket.waitFor('ready');
    return { id, socket };
  }

  // ---- outlive's native API

  /** The native processes whose record contains the marker. */
  async findNative(marker) {
    const { processes } = await this.native('GET', '/v1/processes');
    return processes.filter((process) => JSON.stringify(process).includes(marker));
  }
}

/** A connection and everything received: `frames` in order, `channels` by first byte, `raw` concatenated. */
export class Socket {
  constructor(ws) {
    this.ws = ws;
    this.frames = [];
    this.channels = { 1: Buffer.alloc(0), 2: Buffer.alloc(0), 3: Buffer.alloc(0) };
    this.raw = Buffer.alloc(0);
    this.waiters = [];
    this.open = new Promise((resolve, reject) => {
      ws.once('open', resolve);
      ws.once('error', reject);
    });
    this.open.catch(() => {});
    this.closed = new Promise((resolve) => ws.once('close', (code, reason) => {
      this.end = { code, reason: reason.toString() };
      this.checkWaiters();
      resolve(this.end);
    }));
    ws.on('error', () => {});
    ws.on('message', (data, isBinary) => this.onMessage(data, isBinary));
  }

  onMessage(data, isBinary) {
    if (isBinary) {
      this.raw = Buffer.concat([this.raw, data]);
      const channel = data[0];
      const offset = channel === 3 ? Number(data.readBigUInt64BE(1)) : undefined;
      const bytes = data.subarray(channel === 3 ? 9 : 1);
      if (this.channels[channel]) this.channels[channel] = Buffer.concat([this.channels[channel], bytes]);
      this.frames.push({ channel, offset, bytes });
    } else {
      this.frames.push(JSON.parse(data.toString()));
    }
    this.checkWaiters();
  }

  checkWaiters() {
    this.waiters = this.waiters.filter((check) => !check());
  }

  waitUntil(what, found) {
    return withTimeout(TIMEOUT_MS, `${what} in ${JSON.stringify(this.raw.toString('latin1').slice(-200))}`, new Promise((resolve, reject) => {
      const check = () => {
        const value = found();
        if (value) resolve(value);
        else if (this.end) reject(new Error(`closed (${this.end.code}) before ${what}`));
        return Boolean(value) || Boolean(this.end);
      };
      if (!check()) this.waiters.push(check);
    }));
  }

  /** Waits for a text in the output, with any framing. */
  waitFor(text) {
    return this.waitUntil(JSON.stringify(text), () => this.printed().includes(text));
  }

  /** The output in order. */
  printed() {
    return this.frames.filter((frame) => frame.bytes).map((frame) => frame.bytes.toString('latin1')).join('');
  }

  waitForRaw(text) {
    return this.waitUntil(JSON.stringify(text), () => this.raw.toString('latin1').includes(text));
  }

  waitForFrame(type) {
    return this.waitUntil(`a frame of the type ${type}`, () => this.frames.find((frame) => frame.type === type));
  }

  type(text) {
    this.ws.send(Buffer.concat([Buffer.from([0]), Buffer.from(text)]));
  }

  send(frame) {
    this.ws.send(JSON.stringify(frame));
  }

  async waitForClose() {
    return withTimeout(TIMEOUT_MS, 'the close', this.closed);
  }
}

export const joined = (messages) => messages.map(({ text }) => text).join('\n');

export async function* events(readable) {
  let rest = '';
  for await (const chunk of readable.setEncoding('utf8')) {
    rest += chunk;
    for (let at = rest.indexOf('\n\n'); at >= 0; at = rest.indexOf('\n\n')) {
      // Events are bare JSON objects without `data:`.
      const event = JSON.parse(rest.slice(0, at));
      assert.equal(typeof event.timestamp, 'number', 'every event has a timestamp');
      yield event;
      rest = rest.slice(at + 2);
    }
  }
  assert.equal(rest, '', 'the last event is incomplete');
}

/** Asserts that an SDK call fails with this status and code, and returns the error. */
export async function expectError(promise, status, code, pattern = /./) {
  const error = await promise.then(
    (value) => assert.fail(`expected ${status}, got ${JSON.stringify(value)?.slice(0, 200)}`),
    (reason) => reason,
  );
  assert.deepEqual([error.statusCode, error.error?.code], [status, code], error.message);
  assert.match(error.error?.message ?? error.message, pattern);
  return error;
}
