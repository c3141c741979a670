import { type Http, randomKey } from './http.js';
import { Process } from './process.js';
import type { ExecInfo, ExecOptions, ExecResult, ProcessInfo, SessionInfo, StartOptions } from './types.js';

/** A shell that remembers: folder, variables, functions. */
export class Session {
  readonly #http: Http;

  constructor(
    http: Http,
    readonly id: string,
  ) {
    this.#http = http;
  }

  #path(rest = ''): string {
    return `/v1/sessions/${encodeURIComponent(this.id)}${rest}`;
  }

  info(): Promise<SessionInfo> {
    return this.#http.json('GET', this.#path());
  }

  /**
   * Runs a command after those before it, and answers when it is over. If the answer is lost on its way, it is asked for again, and nothing
   * runs twice.
   */
  exec(command: string | ExecOptions, signal?: AbortSignal): Promise<ExecResult> {
    const body = typeof command === 'string' ? { command } : command;
    const headers = { 'idempotency-key': randomKey() };
    return this.#http.json('POST', this.#path('/exec'), { body, headers, signal, isRepeatable: true });
  }

  async execs(): Promise<ExecInfo[]> {
    return (await this.#http.json<{ execs: ExecInfo[] }>('GET', this.#path('/execs'))).execs;
  }

  cancel(execId: string): Promise<ExecInfo> {
    return this.#http.json('POST', this.#path(`/execs/${encodeURIComponent(execId)}/cancel`));
  }

  /** A process with a copy of the session's state. */
  async start(options: StartOptions & { killWithSession?: boolean }): Promise<Process> {
    const info = await this.#http.json<ProcessInfo>('POST', this.#path('/processes'), { body: options });
    return new Process(this.#http, info.id);
  }

  delete(): Promise<void> {
    return this.#http.json('DELETE', this.#path());
  }
}
