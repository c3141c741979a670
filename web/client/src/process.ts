import { Attachment, type AttachOptions } from './attach/attachment.js';
import type { Http } from './http.js';
import type {
  AttachmentInfo,
  LogEntry,
  Patch,
  ProcessInfo,
  Role,
  Screen,
  Size,
  Ticket,
  Tree,
  WaitOptions,
  WaitResult,
} from './types.js';

/** Input per request; the server's own limit is 64 KiB. */
const INPUT_REQUEST_BYTES = 32 * 1024;

/** A handle to a process. It caches nothing: every call is a request. */
export class Process {
  readonly #http: Http;

  constructor(
    http: Http,
    /** An id, `tag:NAME` or `pid:NUMBER`. */
    readonly id: string,
  ) {
    this.#http = http;
  }

  #path(suffix = ''): string {
    return `/v1/processes/${encodeURIComponent(this.id)}${suffix}`;
  }

  info(): Promise<ProcessInfo> {
    return this.#http.json('GET', this.#path());
  }

  start(): Promise<ProcessInfo> {
    return this.#http.json('POST', this.#path('/start'));
  }

  restart(options: { graceMs?: number } = {}): Promise<ProcessInfo> {
    return this.#http.json('POST', this.#path('/restart'), { query: options });
  }

  /** Sends TERM to the whole process tree, and KILL after the grace period. */
  stop(options: { waitMs?: number; graceMs?: number } = {}): Promise<ProcessInfo> {
    return this.#http.json('POST', this.#path('/stop'), { query: options, isRepeatable: true });
  }

  kill(options: { waitMs?: number } = {}): Promise<ProcessInfo> {
    return this.#http.json('POST', this.#path('/kill'), { query: options, isRepeatable: true });
  }

  signal(signal: string | number): Promise<ProcessInfo> {
    return this.#http.json('POST', this.#path('/signal'), { body: { signal } });
  }

  patch(patch: Patch): Promise<ProcessInfo> {
    return this.#http.json('PATCH', this.#path(), { body: patch });
  }

  delete(options: { force?: boolean } = {}): Promise<void> {
    return this.#http.json('DELETE', this.#path(), { query: options });
  }

  /** Waits until the process exits, prints a pattern, is silent, listens or responds; see `for`. */
  wait(options: WaitOptions = {}, signal?: AbortSignal): Promise<WaitResult> {
    return this.#http.json('POST', this.#path('/wait'), { body: options, signal, isRepeatable: true });
  }

  /** Writes input; resolves when the kernel has accepted all of it. */
  async write(data: string | Uint8Array): Promise<void> {
    const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : data;
    for (let at = 0; at < bytes.length; at += INPUT_REQUEST_BYTES) {
      const body = { data: base64(bytes.subarray(at, at + INPUT_REQUEST_BYTES)), encoding: 'base64' };
      await this.#http.json('POST', this.#path('/input'), { body });
    }
  }

  closeStdin(): Promise<ProcessInfo> {
    return this.#http.json('POST', this.#path('/stdin/close'));
  }

  resize(size: Size): Promise<Size> {
    return this.#http.json('POST', this.#path('/resize'), { body: size, isRepeatable: true });
  }

  async logs(query: { stream?: string; tail?: number; since?: number; from?: number } = {}): Promise<LogEntry[]> {
    const list = await this.#http.json<{ entries: LogEntry[] }>('GET', this.#path('/logs'), { query });
    return list.entries;
  }

  /** The raw bytes of the output. */
  async output(query: { from?: number; to?: number; stream?: string } = {}): Promise<Uint8Array> {
    const response = await this.#http.send('GET', this.#path('/output'), { query });
    return new Uint8Array(await response.arrayBuffer());
  }

  /** The recording of a terminal as an asciicast. */
  async recording(query: { version?: 2 | 3; from?: number } = {}): Promise<string> {
    return (await this.#http.send('GET', this.#path('/recording'), { query })).text();
  }

  /** The current screen of a terminal: lines, cursor, title and modes, and the offset in the log it belongs to. */
  screen(): Promise<Screen> {
    return this.#http.json('GET', this.#path('/screen'));
  }

  /** The current screen of a terminal as SVG. */
  async picture(): Promise<string> {
    return (await this.#http.send('GET', this.#path('/screen'), { query: { format: 'svg' } })).text();
  }

  async attachments(): Promise<AttachmentInfo[]> {
    const list = await this.#http.json<{ attachments: AttachmentInfo[] }>('GET', this.#path('/attachments'));
    return list.attachments;
  }

  tree(): Promise<Tree> {
    return this.#http.json('GET', this.#path('/tree'));
  }

  /**
   * Creates a ticket: it lets a client without a token attach, by default once within a minute. A writer's ticket with
   * more than that needs a token with the scope `admin`.
   */
  ticket(role: Role = 'writer', options: { ttlMs?: number; uses?: number } = {}): Promise<Ticket> {
    const body = { processId: this.id, role, ...options };
    return this.#http.json('POST', '/v1/tickets', { body, isRepeatable: true });
  }

  /** Streams the output across lost connections, and sends input. */
  attach(options: AttachOptions = {}): Attachment {
    return new Attachment(this.#http, this, options);
  }
}

function base64(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}
