// Base class of the check contexts: outlive's native API, and killing the server.

import assert from 'node:assert/strict';
import { TIMEOUT_MS, eventually } from './expect.mjs';

/** More than a client keeps open. */
const CONNECTIONS = 40;

/** The native API of a server. `base` is the server's main address. */
export class Native {
  constructor(base) {
    this.base = base;
  }

  async native(method, path, body, base = this.base) {
    const send = () =>
      fetch(`${base}${path}`, {
        method,
        headers: body === undefined ? {} : { 'content-type': 'application/json' },
        body: body === undefined ? undefined : JSON.stringify(body),
      });
    // `fetch` may reuse a connection just as a server that is being replaced closes it. A GET is retried once.
    const response = await (method === 'GET' ? send().catch(send) : send());
    const text = await response.text();
    assert.ok(response.ok, `${method} ${path}: ${response.status} ${text.slice(0, 200)}`);
    return text === '' ? undefined : JSON.parse(text);
  }

  /** Converts an id of the suite's client to a native id. Suites whose clients have other ids override it. */
  nativeId(id) {
    return id;
  }

  async nativeOutput(id) {
    const response = await fetch(`${this.base}/v1/processes/${this.nativeId(id)}/output`);
    assert.equal(response.status, 200);
    return Buffer.from(await response.arrayBuffer());
  }

  /** Waits on the server until the output matches. */
  async waitForOutput(id, pattern) {
    const wait = { for: 'output', pattern, timeoutMs: TIMEOUT_MS, from: 0 };
    const { outcome } = await this.native('POST', `/v1/processes/${this.nativeId(id)}/wait`, wait);
    assert.equal(outcome, 'matched', `${pattern} in the output`);
  }

  async waitForExit(id) {
    const { outcome } = await this.native('POST', `/v1/processes/${this.nativeId(id)}/wait`, { timeoutMs: TIMEOUT_MS });
    assert.equal(outcome, 'exited');
  }

  /** Counts the processes of this machine whose command line contains the marker. */
  async countProcesses(marker) {
    // The marker is split so that pgrep does not find its own command line.
    const line = `pgrep -fc -- ${marker.slice(0, 3)}"${marker.slice(3)}" || true`;
    const { stdout } = await this.native('POST', '/v1/processes/run', { command: line, shell: true });
    assert.notEqual(stdout, undefined);
    return Number(stdout);
  }

  /** Kills the server with SIGKILL and returns when the next server responds. */
  async killServer() {
    const { serverPid } = await this.native('GET', '/v1/health');
    process.kill(serverPid, 'SIGKILL');
    await this.#waitForNextServer(serverPid);
  }

  /** Upgrades the server and returns when the old one has exited and the next one responds. */
  async upgradeServer() {
    const { serverPid } = await this.native('GET', '/v1/health');
    await this.native('POST', '/v1/upgrade', {});
    await eventually('the old server exits', () => !exists(serverPid));
    await this.#waitForNextServer(serverPid);
  }

  async #waitForNextServer(oldPid) {
    // A kept-alive connection breaks; a new one waits in the backlog for the next server.
    const probe = () => this.native('GET', '/v1/health').catch(() => ({ serverPid: oldPid }));
    await eventually('the next server', async () => (await probe()).serverPid !== oldPid);
    // The other kept-alive connections are broken too and would fail the next call. Using each one discards it.
    await Promise.all([...Array(CONNECTIONS)].map(probe));
  }
}

function exists(pid) {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    if (error.code === 'ESRCH') return false;
    throw error;
  }
}
