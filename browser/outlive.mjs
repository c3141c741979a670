// A server of a check's own: on a free port, with its own state folder, and its native API for looking at the facts.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { join } from 'node:path';

const STOP_LIMIT_MS = 10_000;

const running = new Set();
// Whatever ends the run, the servers go with it.
process.on('exit', () => running.forEach((child) => child.kill('SIGTERM')));
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => process.exit(1));

export class Outlive {
  /** Without further arguments it makes itself a token, as for everybody who just starts it. */
  static async start(t, ...args) {
    const state = join(await t.folder(), 'state');
    // Shells do not end by TERM: each check with one would wait for them in the end.
    const child = spawn(t.binary, ['serve', '--listen', '127.0.0.1:0', '--state-dir', state, '--grace-ms', '200', ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
      // The developer's own settings must not decide a check.
      env: Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('OUTLIVE_'))),
    });
    running.add(child);
    const server = new Outlive(child);
    t.after(() => server.stop());
    await server.#listen(!args.includes('--no-token'));
    return server;
  }

  #child;
  #errors = '';
  #ended;

  constructor(child) {
    this.#child = child;
    child.stderr.on('data', (bytes) => (this.#errors = (this.#errors + bytes).slice(-2_000)));
    this.#ended = once(child, 'exit').then(([code, signal]) => {
      running.delete(child);
      return code ?? signal;
    });
  }

  /** Reads what it says about itself: where it listens, and what to open in a browser. */
  async #listen(makesToken) {
    for await (const line of createInterface({ input: this.#child.stdout })) {
      this.base ??= line.match(/^listening on (http:\/\/\S+)$/)?.[1];
      this.opened ??= line.match(/^open (http:\/\/\S+)$/)?.[1];
      if (this.base && (this.opened || !makesToken)) break;
    }
    if (!this.base) throw new Error(`the server did not listen: ${this.#errors}`);
    // Nobody reads on, and nothing it says later may block it.
    this.#child.stdout.resume();
    this.token = this.opened && new URLSearchParams(new URL(this.opened).hash.slice(1)).get('token');
    this.port = new URL(this.base).port;
  }

  async call(method, path, body) {
    const headers = { 'content-type': 'application/json' };
    if (this.token) headers.authorization = `Bearer ${this.token}`;
    const answer = await fetch(this.base + path, { method, headers, body: body && JSON.stringify(body) });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return answer.headers.get('content-type')?.includes('json') ? JSON.parse(text) : text;
  }

  /** The value of a counter; one that has not counted anything yet is not there. */
  async metric(name) {
    const lines = (await this.call('GET', '/metrics')).split('\n');
    const line = lines.find((text) => text.startsWith(`${name} `));
    return line ? Number(line.split(' ').pop()) : 0;
  }

  /** How many requests were turned away at the door. */
  forbidden() {
    return this.metric('outlive_http_responses_total{status="403"}');
  }

  async stop() {
    this.#child.kill('SIGTERM');
    const late = setTimeout(() => this.#child.kill('SIGKILL'), STOP_LIMIT_MS);
    const end = await this.#ended;
    clearTimeout(late);
    if (end !== 0) throw new Error(`the server ended with ${end}: ${this.#errors}`);
  }
}
