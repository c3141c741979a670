import { type EventFilter, events, type OutliveEvent } from './events.js';
import { Http, type Options, randomKey } from './http.js';
import { Process } from './process.js';
import { Session } from './session.js';
import type {
  Context,
  Health,
  History,
  ProcessInfo,
  RunOptions,
  RunResult,
  SessionInfo,
  SessionOptions,
  StartOptions,
  TicketInfo,
} from './types.js';

/** A client of one server. */
export class Outlive {
  readonly #http: Http;

  constructor(options: Options = {}) {
    this.#http = new Http(options);
  }

  health(): Promise<Health> {
    return this.#http.json('GET', '/v1/health');
  }

  /** Runs a command and resolves when it has ended. Aborting the signal kills it with all its children. */
  run(options: RunOptions, signal?: AbortSignal): Promise<RunResult> {
    return this.#http.json('POST', '/v1/processes/run', { body: options, signal });
  }

  /**
   * Starts a process that keeps running. If the response is lost, the request is repeated with the same idempotency
   * key, so nothing is started twice. Pass your own `key` to make your retries safe too.
   */
  async start(options: StartOptions, { key = randomKey() }: { key?: string } = {}): Promise<Process> {
    const headers = { 'idempotency-key': key };
    const call = { body: options, headers, isRepeatable: true };
    const info = await this.#http.json<ProcessInfo>('POST', '/v1/processes', call);
    return this.process(info.id);
  }

  /** A handle by id, `tag:NAME` or `pid:NUMBER`. Nothing is requested until a method of it is called. */
  process(id: string): Process {
    return new Process(this.#http, id);
  }

  /** With `boot` (`current`, `previous`, `all` or an id) also those of the history, which needs the scope `admin`. */
  async processes(
    filter: { status?: string; sessionId?: string; tag?: string; source?: string; boot?: string } = {},
  ): Promise<ProcessInfo[]> {
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

  /** What is stored on disk, also of earlier boots. Needs the scope `admin`. */
  history(): Promise<History> {
    return this.#http.json('GET', '/v1/history');
  }

  /** The valid tickets created with the same token; with the scope `admin` all. */
  async tickets(): Promise<TicketInfo[]> {
    return (await this.#http.json<{ tickets: TicketInfo[] }>('GET', '/v1/tickets')).tickets;
  }

  /** Revokes a ticket. Connections that are open stay open. */
  revokeTicket(id: string): Promise<void> {
    return this.#http.json('DELETE', `/v1/tickets/${encodeURIComponent(id)}`);
  }

  /** The commands of a session and their output, as context for an agent. */
  context(query: { sessionId: string; source?: string; sinceMs?: number; maxBytes?: number }): Promise<Context> {
    return this.#http.json('GET', '/v1/context', { query });
  }
}
