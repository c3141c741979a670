// What the checks need: a client per check that cleans up after itself, collectors of bytes, comparisons.

import assert from 'node:assert/strict';
import { setMaxListeners } from 'node:events';
import { SandboxAgent, SandboxAgentError } from 'sandbox-agent';
import { WebSocket } from 'ws';
import { PATIENCE_MS, settle } from '../_shared/facts.mjs';

export const MB = 1_000_000;

// Nothing new for this long after the program's end: nothing more will come. Longer than any pause of a reader here.
const SILENCE_MS = PATIENCE_MS;

/** One check's view of the server. What it started is stopped and removed when the check is over. */
export class Context {
  #cleaners = [];
  #started = [];
  #over = new AbortController();

  constructor({ baseUrl, token }) {
    this.baseUrl = baseUrl;
    this.token = token;
    this.signal = this.#over.signal;
    setMaxListeners(0, this.signal);
    this.agent = this.client();
  }

  /** A client whose requests end with the check, so that one hanging call cannot reach into the next check. */
  client({ token = this.token, fetch: inner = fetch, signal = this.signal, ...options } = {}) {
    return new SandboxAgent({
      baseUrl: this.baseUrl,
      token,
      // The gate is a check of its own (connect.mjs); the others need not ask for health every time.
      skipHealthCheck: true,
      fetch: (url, init = {}) =>
        inner(url, { ...init, signal: AbortSignal.any([signal, init.signal].filter(Boolean)) }),
      ...options,
    });
  }

  /** A request that the SDK cannot make. The answer is returned whatever its status. */
  raw(method, path, { headers = {}, body, query, token = this.token, signal = this.signal } = {}) {
    const url = new URL(`${this.baseUrl}${path}`);
    for (const [key, value] of Object.entries(query ?? {})) url.searchParams.set(key, value);
    const auth = token ? { authorization: `Bearer ${token}` } : {};
    return fetch(url, { method, body, headers: { ...auth, ...headers }, signal });
  }

  json(method, path, body) {
    return this.raw(method, path, { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  }

  after(cleaner) {
    this.#cleaners.push(cleaner);
  }

  /** createProcess, remembered for the clean-up. */
  async start(request) {
    const info = await this.agent.createProcess(request);
    this.#started.push(info);
    return info;
  }

  /** A managed `sh -c script`; further values are $1, $2, … of the script. */
  startShell(script, { args = [], ...options } = {}) {
    return this.start({ command: 'sh', args: ['-c', script, 'sh', ...args], ...options });
  }

  runShell(script, { args = [], ...options } = {}) {
    return this.agent.runProcess({ command: 'sh', args: ['-c', script, 'sh', ...args], ...options });
  }

  /** Waits until a condition that has no event of its own becomes true, and returns its value. */
  async until(what, fact, ms = PATIENCE_MS) {
    const end = Date.now() + ms;
    for (;;) {
      this.signal.throwIfAborted();
      const value = await fact();
      if (value) return value;
      if (Date.now() > end) throw new Error(`waited ${ms} ms in vain: ${what}`);
      await pause(20);
    }
  }

  exited(id, ms) {
    return this.until(`${id} has exited`, async () => {
      const info = await this.agent.getProcess(id);
      return info.status === 'exited' && info;
    }, ms);
  }

  /** Waits for a program's own word that it is where the check wants it. No follower is left behind. */
  untilLogged(id, text) {
    return this.until(`the log of ${id} has ${JSON.stringify(text)}`, async () => (await this.logBytes(id)).includes(text));
  }

  /** All bytes that /logs has for a process. */
  async logBytes(id, query) {
    const { entries } = await this.agent.getProcessLogs(id, query);
    return Buffer.concat(entries.map(decodeEntry));
  }

  /** followProcessLogs with everything it delivers. */
  async follow(id, query = {}, { agent = this.agent } = {}) {
    const bytes = new Bytes(this.signal);
    const entries = [];
    const subscription = await agent.followProcessLogs(id, (entry) => {
      // The data is kept once, in `bytes`.
      entries.push({ ...entry, data: undefined });
      bytes.push(decodeEntry(entry));
    }, query);
    this.after(() => subscription.close());
    return { bytes, entries, close: () => subscription.close(), closed: subscription.closed };
  }

  /** connectProcessTerminal, once it is ready. */
  async attach(id, options) {
    const terminal = this.dial(id, options);
    await within(PATIENCE_MS, 'terminal ready', terminal.ready);
    return terminal;
  }

  /** connectProcessTerminal with everything it delivers, in the order of the wire. */
  dial(id, { agent = this.agent, ...options } = {}) {
    const session = agent.connectProcessTerminal(id, { WebSocket: TappedWebSocket, ...options });
    const terminal = new Terminal(session, this.signal);
    this.after(() => terminal.socket.terminate());
    return terminal;
  }

  /** A plain WebSocket on any path of the server. */
  socket(path) {
    const url = new URL(`${this.baseUrl}${path}`.replace(/^http/, 'ws'));
    const headers = this.token ? { authorization: `Bearer ${this.token}` } : {};
    const socket = new TappedWebSocket(url, { headers });
    socket.on('error', () => {});
    this.after(() => socket.terminate());
    return socket;
  }

  /** The status with which the server refuses an upgrade, or 101. */
  upgradeStatus(path, headers = {}) {
    return new Promise((resolve, reject) => {
      const url = `${this.baseUrl}${path}`.replace(/^http/, 'ws');
      const socket = new WebSocket(url, { headers });
      this.after(() => socket.terminate());
      socket.on('open', () => resolve(101));
      socket.on('unexpected-response', (request, response) => {
        resolve(response.statusCode);
        request.destroy();
      });
      socket.on('error', reject);
    });
  }

  /** Applies changed limits for the length of this check. */
  async limits(changes) {
    const before = await this.agent.getProcessConfig();
    this.after(() => this.#janitor().setProcessConfig(before));
    await this.agent.setProcessConfig({ ...before, ...changes });
  }

  /** A directory on the server's machine. */
  async tempDir() {
    const { stdout } = await this.runShell('mktemp -d');
    const path = stdout.trim();
    assert.match(path, /^\/.+/);
    this.after(() => this.#janitor().runProcess({ command: 'rm', args: ['-rf', path] }));
    return path;
  }

  /**
   * A living process by its pid and its start: pids come round quickly on a busy machine.
   * It is asked for through the server, which may have a pid namespace of its own.
   */
  async lookUp(pid) {
    const { stdout } = await this.runShell('cat "/proc/$1/stat" 2>/dev/null', { args: [String(pid)] });
    // The name in the middle may hold anything; state and start are the 1st and the 20th after it.
    const fields = stdout.slice(stdout.lastIndexOf(')') + 2).split(' ');
    const [state, started] = [fields[0], fields[19]];
    return started === undefined || state === 'Z' || state === 'X' ? null : { pid: String(pid), started };
  }

  /** A process found by `lookUp` must be gone by now. */
  async gone(what, found) {
    if (found === null) return;
    const isGone = async () => (await this.lookUp(found.pid))?.started !== found.started;
    try {
      await this.until(`${what} (pid ${found.pid}) is gone`, isGone);
    } catch (error) {
      this.killAtEnd(found);
      throw error;
    }
  }

  /** For a process that a server may leave behind. */
  killAtEnd({ pid, started }) {
    const script = 's=$(cat "/proc/$1/stat") && set -- "$1" "$2" ${s##*) } && [ "${22}" = "$2" ] && kill -9 "$1"';
    this.after(() => this.#janitor().runProcess({ command: 'sh', args: ['-c', script, 'sh', pid, started] }));
  }

  async cleanUp() {
    // Ends every request and wait that the check still has in flight.
    this.#over.abort();
    for (const cleaner of this.#cleaners.reverse()) {
      await settle(cleaner);
    }
    await inBatches(this.#started, 16, (info) => this.#remove(info));
  }

  async #remove({ id }) {
    const janitor = this.#janitor();
    await settle(async () => {
      await janitor.killProcess(id, { waitMs: 3_000 });
      await janitor.deleteProcess(id);
    });
  }

  /** A client that still works when the check is out of time, but not for long. */
  #janitor() {
    return this.client({ signal: AbortSignal.timeout(PATIENCE_MS) });
  }
}

/** Bytes as they come in, and waiting for more of them. */
export class Bytes {
  length = 0;
  #chunks = [];
  #listeners = new Set();
  #signal;

  constructor(signal) {
    this.#signal = signal;
  }

  push(chunk) {
    this.#chunks.push(chunk);
    this.length += chunk.length;
    for (const listener of [...this.#listeners]) listener();
  }

  buffer() {
    return Buffer.concat(this.#chunks);
  }

  text() {
    return this.buffer().toString('utf8');
  }

  /** Resolves as soon as `fact(this)` holds; it is asked again whenever bytes arrive. */
  until(what, fact, ms = PATIENCE_MS) {
    return new Promise((resolve, reject) => {
      const finish = (settleWith, value) => {
        clearTimeout(timer);
        this.#listeners.delete(listener);
        settleWith(value);
      };
      const listener = () => {
        const value = fact(this);
        if (value) finish(resolve, value);
      };
      const give = () => {
        const seen = this.length > 200 ? `${this.length} bytes` : JSON.stringify(this.text());
        finish(reject, new Error(`waited ${ms} ms in vain: ${what}; got ${seen}`));
      };
      const timer = setTimeout(give, ms);
      this.#signal.addEventListener('abort', give, { once: true });
      this.#listeners.add(listener);
      listener();
    });
  }

  untilText(part, ms) {
    return this.until(`output has ${JSON.stringify(part)}`, () => this.text().includes(part), ms);
  }

  untilLength(length, ms) {
    return this.until(`${length} bytes of output`, () => this.length >= length, ms);
  }

  /** Resolves at `length` bytes, or when the source has ended and nothing has come for a while: a loss. */
  async untilLengthOrLoss(t, length, ended) {
    let seen = -1;
    let since = Date.now();
    await t.until(`${length} bytes, or an end`, async () => {
      if (this.length !== seen) {
        seen = this.length;
        since = Date.now();
      }
      return this.length >= length || (Date.now() - since > SILENCE_MS && (await ended()));
    }, 90_000);
  }
}

/** The SDK's terminal session and what came over its wire. */
class Terminal {
  constructor(session, signal) {
    this.session = session;
    this.socket = session.socket;
    this.bytes = new Bytes(signal);
    this.errors = [];
    session.onData((chunk) => this.bytes.push(Buffer.from(chunk)));
    session.onError((error) => this.errors.push(error));
    this.ready = new Promise((resolve) => session.onReady(resolve));
    this.exit = new Promise((resolve) => session.onExit(resolve));
    this.closed = session.closed;
  }

  /** Frames by kind, in order, runs of binary ones counted once: ['ready', 'bytes', 'exit', 'close']. */
  get shape() {
    return this.socket.frames.map(({ kind }) => kind).filter((kind, i, all) => kind !== 'bytes' || all[i - 1] !== kind);
  }

  /** The text frames, parsed. */
  get texts() {
    return this.socket.frames.flatMap(({ text }) => (text === undefined ? [] : [JSON.parse(text)]));
  }

  send(data) {
    this.session.sendInput(data);
  }

  /** The exit frame, once the server has closed the connection and every byte is delivered. */
  async end(ms = PATIENCE_MS) {
    const [exit] = await within(ms, 'terminal exit and close', Promise.all([this.exit, this.closed]));
    return exit;
  }

  untilError(count = 1) {
    return within(PATIENCE_MS, `${count} error frames`, new Promise((resolve) => {
      const look = () => this.errors.length >= count && resolve(this.errors.at(-1));
      this.session.onError(look);
      look();
    }));
  }
}

/** The SDK hands bytes over a little later than text; the order on the wire is taken down before it. */
class TappedWebSocket extends WebSocket {
  frames = [];

  constructor(...args) {
    super(...args);
    this.on('message', (data, isBinary) => {
      const atMs = performance.now();
      if (isBinary) {
        this.frames.push({ kind: 'bytes', length: data.byteLength, atMs });
      } else {
        const text = data.toString();
        this.frames.push({ kind: frameType(text), text, atMs });
      }
    });
    this.on('close', (code) => this.frames.push({ kind: 'close', code, atMs: performance.now() }));
  }
}

function frameType(text) {
  try {
    return JSON.parse(text).type ?? 'untyped';
  } catch {
    return 'not JSON';
  }
}

// ---- comparisons

/** Equal in length and in every byte; tells where the first difference is. */
export function sameBytes(actual, expected, what = 'output') {
  if (actual.equals(expected)) return;
  const shorter = Math.min(actual.length, expected.length);
  let at = 0;
  while (at < shorter && actual[at] === expected[at]) at += 1;
  const around = (bytes) => JSON.stringify(bytes.subarray(at, at + 60).toString('latin1'));
  throw new Error(
    `${what}: ${actual.length} bytes instead of ${expected.length}, ` +
      `differing at ${at}: ${around(actual)} instead of ${around(expected)}`,
  );
}

/** The SDK's error with this status; returns its problem body, which must be a complete one. */
export async function refused(promise, status, { type, code } = {}) {
  const error = await promise.then(
    (value) => assert.fail(`expected ${status}, got a result: ${JSON.stringify(value)?.slice(0, 200)}`),
    (reason) => reason,
  );
  if (!(error instanceof SandboxAgentError)) throw error;
  const { problem } = error;
  assert.equal(error.status, status, `status (problem: ${JSON.stringify(problem)})`);
  assertProblem(problem, status);
  if (type !== undefined) assert.equal(problem.type, `urn:sandbox-agent:error:${type}`);
  if (code !== undefined) assert.equal(problem.code, code, 'problem code');
  return problem;
}

export function assertProblem(problem, status) {
  assert.equal(typeof problem, 'object', 'the body is a problem document');
  assert.equal(problem.status, status, 'status in the problem');
  for (const field of ['type', 'title', 'detail']) {
    assert.equal(typeof problem[field], 'string', `${field} in the problem`);
    assert.notEqual(problem[field], '', `${field} in the problem`);
  }
}

// ---- server-sent events

/** The events of a stream, comments left out. */
export async function* readEvents(response) {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of response.body) {
    rest += decoder.decode(chunk, { stream: true });
    const blocks = rest.split('\n\n');
    rest = blocks.pop();
    for (const block of blocks) {
      const fields = block.split('\n').map((line) => line.match(/^(\w+): ?(.*)$/s)).filter(Boolean);
      if (fields.length > 0) yield Object.fromEntries(fields.map(([, name, value]) => [name, value]));
    }
  }
}

// ---- small things

export const decodeEntry = (entry) => Buffer.from(entry.data, 'base64');

/** Only for a reader that is slow on purpose and for the step of a poll. */
export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export function within(ms, what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: not within ${ms} ms`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

export async function timed(promise) {
  const start = performance.now();
  const value = await promise;
  return { value, ms: performance.now() - start };
}

export const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

export async function inBatches(items, size, each) {
  const results = [];
  for (let at = 0; at < items.length; at += size) {
    results.push(...(await Promise.all(items.slice(at, at + size).map(each))));
  }
  return results;
}
