import { execItem, type ExecItem } from './exec_stream.js';
import { type Http, randomKey } from './http.js';
import { Process } from './process.js';
import { serverEvents } from './sse.js';
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

  /**
   * The same, with what it prints as it comes. A stream that breaks off does not end the command: `result` of its `execId` has all of it.
   */
  async *stream(command: string | ExecOptions, signal?: AbortSignal): AsyncGenerator<ExecItem> {
    const body = { ...(typeof command === 'string' ? { command } : command), stream: true };
    const headers = { accept: 'text/event-stream' };
    const response = await this.#http.send('POST', this.#path('/exec'), { body, headers, signal });
    if (!response.body) return;
    for await (const event of serverEvents(response.body)) {
      const item = execItem(event);
      if (item) yield item;
    }
  }

  /** A command with what it printed; `wait`: when it is over. */
  result(execId: string, query: { wait?: boolean; maxOutputBytes?: number; encoding?: 'utf8' | 'base64' } = {}): Promise<ExecResult> {
    return this.#http.json('GET', this.#path(`/execs/${encodeURIComponent(execId)}`), { query });
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
