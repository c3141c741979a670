// The server as a check sees it beside its official client: outlive's own API, and the death of the server.

import assert from 'node:assert/strict';
import { PATIENCE_MS, eventually } from './facts.mjs';

/** More than a client keeps open. */
const CONNECTIONS = 40;

/** What the context of a suite's checks is built on. `base` is the server's main address. */
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
    // `fetch` keeps connections, and may use one in the moment in which a server that is replaced closes it: who only looks asks again.
    const response = await (method === 'GET' ? send().catch(send) : send());
    const text = await response.text();
    assert.ok(response.ok, `${method} ${path}: ${response.status} ${text.slice(0, 200)}`);
    return text === '' ? undefined : JSON.parse(text);
  }

  /** The native id of what checks name `id`. Suites whose clients have other ids override it. */
  nativeId(id) {
    return id;
  }

  async nativeOutput(id) {
    const response = await fetch(`${this.base}/v1/processes/${this.nativeId(id)}/output`);
    assert.equal(response.status, 200);
    return Buffer.from(await response.arrayBuffer());
  }

  /** Waits until the output matches, by the server's own wait. */
  async untilPrinted(id, pattern) {
    const wait = { for: 'output', pattern, timeoutMs: PATIENCE_MS, from: 0 };
    const { outcome } = await this.native('POST', `/v1/processes/${this.nativeId(id)}/wait`, wait);
    assert.equal(outcome, 'matched', `${pattern} in the output`);
  }

  async untilExited(id) {
    const { outcome } = await this.native('POST', `/v1/processes/${this.nativeId(id)}/wait`, { timeoutMs: PATIENCE_MS });
    assert.equal(outcome, 'exited');
  }

  /** How many processes of this machine have this in their command line. */
  async living(mark) {
    // Split, so that the look does not find itself.
    const line = `pgrep -fc -- ${mark.slice(0, 3)}"${mark.slice(3)}" || true`;
    const { stdout } = await this.native('POST', '/v1/processes/run', { command: line, shell: true });
    assert.notEqual(stdout, undefined);
    return Number(stdout);
  }

  /** Returns when the next server answers. */
  async killServer() {
    const { serverPid } = await this.native('GET', '/v1/health');
    process.kill(serverPid, 'SIGKILL');
    // A connection that was kept open breaks; the next one waits for the next server.
    const look = () => this.native('GET', '/v1/health').catch(() => ({ serverPid }));
    await eventually('another server', async () => (await look()).serverPid !== serverPid);
    // The others that were kept open are broken as well, and would break the next call: they are found out by being used.
    await Promise.all([...Array(CONNECTIONS)].map(look));
  }
}
