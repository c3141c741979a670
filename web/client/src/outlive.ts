import { type EventFilter, events, type OutliveEvent } from './events.js';
import { Http, type Options, randomKey } from './http.js';
import { Process } from './process.js';
import { Session } from './session.js';
import type { Context, Health, ProcessInfo, RunOptions, RunResult, SessionInfo, SessionOptions, StartOptions } from './types.js';

/** A server. */
export class Outlive {
  readonly #http: Http;

  constructor(options: Options = {}) {
    this.#http = new Http(options);
  }

  health(): Promise<Health> {
    return this.#http.json('GET', '/v1/health');
  }

  /** Runs a command and answers when it has ended. If the signal is aborted, it is killed with all its children. */
  run(options: RunOptions, signal?: AbortSignal): Promise<RunResult> {
    return this.#http.json('POST', '/v1/processes/run', { body: options, signal });
  }

  /**
   * Starts something that goes on by itself. If the answer is lost on its way, it is asked for again, and nothing is started twice;
   * with a `key` of your own that holds for retries of yours too.
   */
  async start(options: StartOptions, { key = randomKey() }: { key?: string } = {}): Promise<Process> {
    const headers = { 'idempotency-key': key };
    const call = { body: options, headers, isRepeatable: true };
    const info = await this.#http.json<ProcessInfo>('POST', '/v1/processes', call);
    return this.process(info.id);
  }

  /** By id, `tag:NAME` or `pid:NUMBER`; whether there is such a thing is known when it is asked for something. */
  process(id: string): Process {
    return new Process(this.#http, id);
  }

  async processes(filter: { status?: string; sessionId?: string; tag?: string; source?: string } = {}): Promise<ProcessInfo[]> {
    return (await this.#http.json<{ processes: ProcessInfo[] }>('GET', '/v1/processes', { query: filter })).processes;
  }

  events(filter: EventFilter = {}): AsyncGenerator<OutliveEvent> {
    return events(this.#http, filter);
  }

  async createSession(options: SessionOptions = {}): Promise<Session> {
    return this.session((await this.#http.json<SessionInfo>('POST', '/v1/sessions', { body: options })).id);
  }

  session(id: string): Session {
    return new Session(this.#http, id);
  }

  async sessions(): Promise<SessionInfo[]> {
    return (await this.#http.json<{ sessions: SessionInfo[] }>('GET', '/v1/sessions')).sessions;
  }

  /** What was run for a session, and what it printed: for feeding an agent. */
  context(query: { sessionId: string; source?: string; sinceMs?: number; maxBytes?: number }): Promise<Context> {
    return this.#http.json('GET', '/v1/context', { query });
  }
}
