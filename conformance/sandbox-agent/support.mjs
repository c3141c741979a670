// The context of a check: a client that cleans up after itself, collectors of bytes, comparisons.

import assert from 'node:assert/strict';
import { setMaxListeners } from 'node:events';
import { SandboxAgent, SandboxAgentError } from 'sandbox-agent';
import { WebSocket } from 'ws';
import { TIMEOUT_MS, ignoreErrors, withTimeout } from '../_shared/expect.mjs';

export const MB = 1_000_000;

// If nothing new comes for this long after the exit, nothing more will come. Longer than any reader's pause in these
// checks.
const QUIET_MS = TIMEOUT_MS;

/** The context of a check. Processes that it started are killed and deleted when the check ends. */
export class Context {
  #cleanUpSteps = [];
  #started = [];
  #abort = new AbortController();

  constructor({ baseUrl, token }) {
    this.baseUrl = baseUrl;
    this.token = token;
    this.signal = this.#abort.signal;
    setMaxListeners(0, this.signal);
    this.agent = this.client();
  }

  /** A client whose requests are aborted with the check, so that a hanging call cannot affect the next check. */
  client({ token = this.token, fetch: inner = fetch, signal = this.signal, ...options } = {}) {
    return new SandboxAgent({
      baseUrl: this.baseUrl,
      token,
      // Waiting for health has its own check (connect.mjs); the others skip it.
      skipHealthCheck: true,
      fetch: (url, init = {}) =>
        inner(url, { ...init, signal: AbortSignal.any([signal, init.signal].filter(Boolean)) }),
      ...options,
    });
  }

  /** Sends a request that the SDK cannot make. Returns the response, whatever its status. */
  raw(method, path, { headers = {}, body, query, token = this.token, signal = this.signal } = {}) {
    const url = new URL(`${this.baseUrl}${path}`);
    for (const [key, value] of Object.entries(query ?? {})) url.searchParams.set(key, value);
    const auth = token ? { authorization: `Bearer ${token}` } : {};
    return fetch(url, { method, body, headers: { ...auth, ...headers }, signal });
  }

  json(method, path, body) {
    return this.raw(method, path, { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  }

  onCleanUp(step) {
    this.#cleanUpSteps.push(step);
  }

  /** Calls createProcess and registers the process for the clean-up. */
  async start(request) {
    const info = await this.agent.createProcess(request);
    this.#started.push(info);
    return info;
  }

  /** Starts `sh -c script`; `args` are $1, $2, … of the script. */
  startShell(script, { args = [], ...options } = {}) {
    return this.start({ command: 'sh', args: ['-c', script, 'sh', ...args], ...options });
  }

  runShell(script, { args = [], ...options } = {}) {
    return this.agent.runProcess({ command: 'sh', args: ['-c', script, 'sh', ...args], ...options });
  }

  /** Polls until a condition is truthy, and returns its value. */
  async waitFor(what, condition, ms = TIMEOUT_MS) {
    const deadline = Date.now() + ms;
    for (;;) {
      this.signal.throwIfAborted();
      const value = await condition();
      if (value) return value;
      if (Date.now() > deadline) throw new Error(`not within ${ms} ms: ${what}`);
      await pause(20);
    }
  }

  waitForExit(id, ms) {
    return this.waitFor(`${id} has exited`, async () => {
      const info = await this.agent.getProcess(id);
      return info.status === 'exited' && info;
    }, ms);
  }

  /** Waits for a text in the log without leaving a follower behind. */
  waitForLog(id, text) {
    return this.waitFor(`the log of ${id} has ${JSON.stringify(text)}`, async () => (await this.logBytes(id)).includes(text));
  }

  /** All bytes of a process's log. */
  async logBytes(id, query) {
    const { entries } = await this.agent.getProcessLogs(id, query);
    return Buffer.concat(entries.map(decodeEntry));
  }

  /** Calls followProcessLogs and collects all entries. */
  async follow(id, query = {}, { agent = this.agent } = {}) {
    const bytes = new Bytes(this.signal);
    const entries = [];
    const subscription = await agent.followProcessLogs(id, (entry) => {
      // The data is kept in `bytes` only.
      entries.push({ ...entry, data: undefined });
      bytes.push(decodeEntry(entry));
    }, query);
    this.onCleanUp(() => subscription.close());
    return { bytes, entries, close: () => subscription.close(), closed: subscription.closed };
  }

  /** Calls connectProcessTerminal and waits until it is ready. */
  async attach(id, options) {
    const terminal = this.openTerminal(id, options);
    await withTimeout(TIMEOUT_MS, 'terminal ready', terminal.ready);
    return terminal;
  }

  /** Calls connectProcessTerminal and collects all frames in wire order. */
  openTerminal(id, { agent = this.agent, ...options } = {}) {
    const session = agent.connectProcessTerminal(id, { WebSocket: RecordingWebSocket, ...options });
    const terminal = new Terminal(session, this.signal);
    this.onCleanUp(() => terminal.socket.terminate());
    return terminal;
  }

  /** Opens a plain WebSocket on any path of the server. */
  socket(path) {
    const url = new URL(`${this.baseUrl}${path}`.replace(/^http/, 'ws'));
    const headers = this.token ? { authorization: `Bearer ${this.token}` } : {};
    const socket = new RecordingWebSocket(url, { headers });
    socket.on('error', () => {});
    this.onCleanUp(() => socket.terminate());
    return socket;
  }

  /** Returns the status of an upgrade request: 101, or that of the refusal. */
  upgradeStatus(path, headers = {}) {
    return new Promise((resolve, reject) => {
      const url = `${this.baseUrl}${path}`.replace(/^http/, 'ws');
      const socket = new WebSocket(url, { headers });
      this.onCleanUp(() => socket.terminate());
      socket.on('open', () => resolve(101));
      socket.on('unexpected-response', (request, response) => {
        resolve(response.statusCode);
        request.destroy();
      });
      socket.on('error', reject);
    });
  }

  /** Changes limits until the end of this check. */
  async changeLimits(changes) {
    const before = await this.agent.getProcessConfig();
    this.onCleanUp(() => this.#cleanUpClient().setProcessConfig(before));
    await this.agent.setProcessConfig({ ...before, ...changes });
  }

  /** Creates a directory on the server's machine. */
  async tempDir() {
    const { stdout } = await this.runShell('mktemp -d');
    const path = stdout.trim();
    assert.match(path, /^\/.+/);
    this.onCleanUp(() => this.#cleanUpClient().runProcess({ command: 'rm', args: ['-rf', path] }));
    return path;
  }

  /**
   * Finds a running process and its start time, because pids are reused quickly on a busy machine.
   * The lookup runs on the server, which may have its own pid namespace.
   */
  async findProcess(pid) {
    const { stdout } = await this.runShell('cat "/proc/$1/stat" 2>/dev/null', { args: [String(pid)] });
    // The name may contain any character; state and start time are the 1st and the 20th field after it.
    const fields = stdout.slice(stdout.lastIndexOf(')') + 2).split(' ');
    const [state, started] = [fields[0], fields[19]];
    return started === undefined || state === 'Z' || state === 'X' ? null : { pid: String(pid), started };
  }

  /** Waits until a process found by `findProcess` no longer exists. */
  async expectGone(what, found) {
    if (found === null) return;
    const isGone = async () => (await this.findProcess(found.pid))?.started !== found.started;
    try {
      await this.waitFor(`${what} (pid ${found.pid}) no longer exists`, isGone);
    } catch (error) {
      this.killAtEnd(found);
      throw error;
    }
  }

  /** Kills a process that the server may leave running. */
  killAtEnd({ pid, started }) {
    const script = 's=$(cat "/proc/$1/stat") && set -- "$1" "$2" ${s##*) } && [ "${22}" = "$2" ] && kill -9 "$1"';
    this.onCleanUp(() => this.#cleanUpClient().runProcess({ command: 'sh', args: ['-c', script, 'sh', pid, started] }));
  }

  async cleanUp() {
    // Aborts all requests and waits of the check.
    this.#abort.abort();
    for (const step of this.#cleanUpSteps.reverse()) {
      await ignoreErrors(step);
    }
    await inBatches(this.#started, 16, (info) => this.#remove(info));
  }

  async #remove({ id }) {
    const client = this.#cleanUpClient();
    await ignoreErrors(async () => {
      await client.killProcess(id, { waitMs: 3_000 });
      await client.deleteProcess(id);
    });
  }

  /** A client that works after the check was aborted, with its own timeout. */
  #cleanUpClient() {
    return this.client({ signal: AbortSignal.timeout(TIMEOUT_MS) });
  }
}

/** Collects received bytes and waits for more. */
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

  /** Resolves as soon as `condition(this)` is truthy. It is evaluated whenever bytes arrive. */
  waitFor(what, condition, ms = TIMEOUT_MS) {
    return new Promise((resolve, reject) => {
      const finish = (settleWith, value) => {
        clearTimeout(timer);
        this.#listeners.delete(listener);
        settleWith(value);
      };
      const listener = () => {
        const value = condition(this);
        if (value) finish(resolve, value);
      };
      const fail = () => {
        const seen = this.length > 200 ? `${this.length} bytes` : JSON.stringify(this.text());
        finish(reject, new Error(`not within ${ms} ms: ${what}; received ${seen}`));
      };
      const timer = setTimeout(fail, ms);
      this.#signal.addEventListener('abort', fail, { once: true });
      this.#listeners.add(listener);
      listener();
    });
  }

  waitForText(part, ms) {
    return this.waitFor(`output has ${JSON.stringify(part)}`, () => this.text().includes(part), ms);
  }

  waitForLength(length, ms) {
    return this.waitFor(`${length} bytes of output`, () => this.length >= length, ms);
  }

  /** Resolves at `length` bytes, or when the source has ended and no bytes came for a while, which is a loss. */
  async waitForLengthOrLoss(t, length, ended) {
    let seen = -1;
    let since = Date.now();
    await t.waitFor(`${length} bytes, or an end`, async () => {
      if (this.length !== seen) {
        seen = this.length;
        since = Date.now();
      }
      return this.length >= length || (Date.now() - since > QUIET_MS && (await ended()));
    }, 90_000);
  }
}

/** The SDK's terminal session and everything received. */
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

  /** Frame kinds in order, consecutive binary frames once: ['ready', 'bytes', 'exit', 'close']. */
  get shape() {
    return this.socket.frames.map(({ kind }) => kind).filter((kind, i, all) => kind !== 'bytes' || all[i - 1] !== kind);
  }

  /** The parsed text frames. */
  get texts() {
    return this.socket.frames.flatMap(({ text }) => (text === undefined ? [] : [JSON.parse(text)]));
  }

  send(data) {
    this.session.sendInput(data);
  }

  /** Returns the exit frame after the server has closed the connection. */
  async end(ms = TIMEOUT_MS) {
    const [exit] = await withTimeout(ms, 'terminal exit and close', Promise.all([this.exit, this.closed]));
    return exit;
  }

  waitForErrors(count = 1) {
    return withTimeout(TIMEOUT_MS, `${count} error frames`, new Promise((resolve) => {
      const check = () => this.errors.length >= count && resolve(this.errors.at(-1));
      this.session.onError(check);
      check();
    }));
  }
}

/** Records the wire order of frames, because the SDK delivers binary frames later than text frames. */
class RecordingWebSocket extends WebSocket {
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

/** Asserts that both are equal; the error shows the first difference. */
export function assertSameBytes(actual, expected, what = 'output') {
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

/** Asserts that an SDK call fails with this status and a complete problem document, and returns the problem. */
export async function expectProblem(promise, status, { type, code } = {}) {
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

/** Parses the events of a stream and skips comments. */
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

// ---- decoding, timing, batches

export const decodeEntry = (entry) => Buffer.from(entry.data, 'base64');

/** Only for readers that are slow on purpose and for polling. */
export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

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
