// A server with a program on a terminal that nobody has touched, and the proof that it stayed so.

import assert from 'node:assert/strict';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Outlive } from './outlive.mjs';

/** Both kinds of server, as arguments. */
export const SERVERS = { token: [], no_token: ['--no-token'] };

/** What the program printed before anything else happened. */
export const SECRET = 'only for whoever may read this';

export class Victim {
  static async start(t, ...args) {
    const server = await Outlive.start(t, ...args);
    const marks = join(await t.folder(), 'marks');
    await mkdir(marks);
    const victim = new Victim(server, marks);
    await victim.startProgram();
    return victim;
  }

  constructor(server, marks) {
    this.server = server;
    this.marks = marks;
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
   * Everything an attacker could have got hold of, however unlikely. `base` is the address that it uses, `redirect` the
   * beginning of one of its own that leads elsewhere.
   */
  async target(base, redirect = '') {
    const ticket = async () => (await this.server.call('POST', '/v1/tickets', { processId: this.id })).ticket;
    return {
      base,
      redirect,
      token: this.server.token ?? 'there-is-none',
      process: this.id,
      tickets: { connect: await ticket(), 'terminal/ws': await ticket() },
      marks: this.marks,
    };
  }

  /** The ways by which a file was written. */
  reached() {
    return readdir(this.marks);
  }

  async assertUntouched() {
    const { processes } = await this.server.call('GET', '/v1/processes?all=true');
    assert.deepEqual(processes.map(({ id }) => id), [this.id], 'no process was started');
    assert.equal(await this.server.metric('outlive_runs_total'), 0, 'nothing was run');
    assert.deepEqual(await this.reached(), [], 'no file was written');
    const now = await this.info();
    assert.equal(now.status, 'running', 'the program still runs');
    assert.equal(now.lastInputAtMs, undefined, 'nothing was typed');
    assert.equal(now.lastAttachAtMs, undefined, 'nobody attached');
    assert.deepEqual(now, this.before, 'nothing about the program has changed');
    assert.equal(await this.server.metric('outlive_attachments_total'), 0, 'nobody was ever attached');
    assert.equal(await this.output(), `${SECRET}\r\n`, 'the program printed nothing more');
  }
}
