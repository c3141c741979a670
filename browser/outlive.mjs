// Starts a server for one check, on a free port and with its own state directory.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { join } from 'node:path';

const STOP_TIMEOUT_MS = 10_000;

const running = new Set();
// The servers end with this process, however it ends.
process.on('exit', () => running.forEach((child) => child.kill('SIGTERM')));
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => process.exit(1));

export class Outlive {
  /** Without `args` the server generates a token, as it does by default. */
  static async start(t, ...args) {
    const directory = await t.tempDir();
    const directories = ['--state-dir', join(directory, 'state')];
    // Interactive shells ignore TERM; a short grace period keeps the end of each check fast.
    const child = spawn(
      t.binary,
      ['serve', '--listen', '127.0.0.1:0', ...directories, '--grace-ms', '200', ...args],
      {
        stdio: ['ignore', 'pipe', 'pipe'],
        // The developer's own settings must not affect a check.
        env: Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('OUTLIVE_'))),
      },
    );
    running.add(child);
    const server = new Outlive(child);
    t.after(() => server.stop());
    await server.#readAddress(!args.includes('--no-token'));
    return server;
  }

  #child;
  #errors = '';
  #exited;

  constructor(child) {
    this.#child = child;
    child.stderr.on('data', (bytes) => (this.#errors = (this.#errors + bytes).slice(-2_000)));
    this.#exited = once(child, 'exit').then(([code, signal]) => {
      running.delete(child);
      return code ?? signal;
    });
  }

  /** Reads the address and the link with the token that the server prints. */
  async #readAddress(printsToken) {
    for await (const line of createInterface({ input: this.#child.stdout })) {
      this.base ??= line.match(/^listening on (http:\/\/\S+)$/)?.[1];
      this.link ??= line.match(/^open (http:\/\/\S+)$/)?.[1];
      if (this.base && (this.link || !printsToken)) break;
    }
    if (!this.base) throw new Error(`the server did not print its address: ${this.#errors}`);
    // Discard later output; a full pipe would block the server.
    this.#child.stdout.resume();
    this.token = this.link && new URLSearchParams(new URL(this.link).hash.slice(1)).get('token');
    this.port = new URL(this.base).port;
  }

  async call(method, path, body) {
    const headers = { 'content-type': 'application/json' };
    if (this.token) headers.authorization = `Bearer ${this.token}`;
    const response = await fetch(this.base + path, { method, headers, body: body && JSON.stringify(body) });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return response.headers.get('content-type')?.includes('json') ? JSON.parse(text) : text;
  }

  /** The value of a counter. A counter that is still zero is not listed. */
  async metric(name) {
    const lines = (await this.call('GET', '/metrics')).split('\n');
    const line = lines.find((text) => text.startsWith(`${name} `));
    return line ? Number(line.split(' ').pop()) : 0;
  }

  /** The number of requests rejected with 403. */
  forbiddenCount() {
    return this.metric('outlive_http_responses_total{status="403"}');
  }

  async stop() {
    this.#child.kill('SIGTERM');
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), STOP_TIMEOUT_MS);
    const exit = await this.#exited;
    clearTimeout(timer);
    if (exit !== 0) throw new Error(`the server exited with ${exit}: ${this.#errors}`);
  }
}
