// A server with a program on a terminal, and assertions that an attack had no effect on it.

import assert from 'node:assert/strict';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Outlive } from './outlive.mjs';

/** Arguments of the servers to attack. */
export const SERVERS = { token: [], no_token: ['--no-token'] };

/** The output of the program. */
export const SECRET = 'only for authorized readers';

export class Victim {
  static async start(t, ...args) {
    const server = await Outlive.start(t, ...args);
    const markers = join(await t.tempDir(), 'markers');
    await mkdir(markers);
    const victim = new Victim(server, markers);
    await victim.startProgram();
    return victim;
  }

  /** `markers`: directory in which a successful attack creates a file named after its vector. */
  constructor(server, markers) {
    this.server = server;
    this.markers = markers;
  }

  async startProgram() {
    const { server } = this;
    const started = await server.call('POST', '/v1/processes', {
      command: 'sh',
      args: ['-c', 'echo "$0"; exec cat', SECRET],
      tty: true,
    });
    const wait = { for: 'output', pattern: `${SECRET}\\r\\n`, from: 0, timeoutMs: 10_000 };
    const { outcome } = await server.call('POST', `/v1/processes/${started.id}/wait`, wait);
    assert.equal(outcome, 'matched', 'the program has printed its line');
    this.id = started.id;
    this.before = await this.info();
  }

  info() {
    return this.server.call('GET', `/v1/processes/${this.id}`);
  }

  output() {
    return this.server.call('GET', `/v1/processes/${this.id}/output?from=0`);
  }

  /**
   * Everything that an attacker could know, including leaked credentials. `base`: the address it uses. `redirect`:
   * prefix of a URL on its own site that redirects to the URL appended to it.
   */
  async target(base, redirect = '') {
    const ticket = async () => (await this.server.call('POST', '/v1/tickets', { processId: this.id })).ticket;
    return {
      base,
      redirect,
      token: this.server.token ?? 'no-token',
      process: this.id,
      tickets: { connect: await ticket(), 'terminal/ws': await ticket() },
      markers: this.markers,
    };
  }

  /** The vectors that managed to run a command. */
  successfulVectors() {
    return readdir(this.markers);
  }

  async assertUntouched() {
    const { processes } = await this.server.call('GET', '/v1/processes?all=true');
    assert.deepEqual(
      processes.map(({ id }) => id),
      [this.id],
      'no process was started',
    );
    assert.equal(await this.server.metric('outlive_runs_total'), 0, 'nothing was run');
    assert.deepEqual(await this.successfulVectors(), [], 'no file was created');
    const now = await this.info();
    assert.equal(now.status, 'running', 'the program still runs');
    assert.equal(now.lastInputAtMs, undefined, 'nothing was typed');
    assert.equal(now.lastAttachAtMs, undefined, 'no client attached');
    assert.deepEqual(now, this.before, 'the process info is unchanged');
    assert.equal(await this.server.metric('outlive_attachments_total'), 0, 'no client was ever attached');
    assert.equal(await this.output(), `${SECRET}\r\n`, 'the program printed nothing more');
  }
}
