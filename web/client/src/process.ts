import { Attachment, type AttachOptions } from './attach/attachment.js';
import type { Http } from './http.js';
import type { AttachmentInfo, LogEntry, Patch, ProcessInfo, Role, Screen, Size, Ticket, Tree, WaitOptions, WaitResult } from './types.js';

/** Input per request; the server's own limit is 64 KiB. */
const PIECE_BYTES = 32 * 1024;

/** Something started, by its id. Nothing is remembered here: every call asks the server. */
export class Process {
  readonly #http: Http;

  constructor(
    http: Http,
    /** An id, `tag:NAME` or `pid:NUMBER`. */
    readonly id: string,
  ) {
    this.#http = http;
  }

  #path(rest = ''): string {
    return `/v1/processes/${encodeURIComponent(this.id)}${rest}`;
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

  /** TERM to the whole tree, KILL after the grace time. */
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

  /** Until it exits, prints something, is silent, listens or answers; see `for`. */
  wait(options: WaitOptions = {}, signal?: AbortSignal): Promise<WaitResult> {
    return this.#http.json('POST', this.#path('/wait'), { body: options, signal, isRepeatable: true });
  }

  /** Types into it; resolves when the kernel has taken all of it. */
  async write(data: string | Uint8Array): Promise<void> {
    const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : data;
    for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
      const body = { data: base64(bytes.subarray(at, at + PIECE_BYTES)), encoding: 'base64' };
      await this.#http.json('POST', this.#path('/input'), { body });
    }
  }

  closeStdin(): Promise<ProcessInfo> {
    return this.#http.json('POST', this.#path('/stdin/close'));
  }

  resize(size: Size): Promise<Size> {
    return this.#http.json('POST', this.#path('/resize'), { body: size, isRepeatable: true });
  }

  async logs(query: { stream?: string; tail?: number; since?: number } = {}): Promise<LogEntry[]> {
    const list = await this.#http.json<{ entries: LogEntry[] }>('GET', this.#path('/logs'), { query });
    return list.entries;
  }

  /** Its bytes, as they were printed. */
  async output(query: { from?: number; to?: number; stream?: string } = {}): Promise<Uint8Array> {
    const response = await this.#http.send('GET', this.#path('/output'), { query });
    return new Uint8Array(await response.arrayBuffer());
  }

  /** Of a terminal: an asciicast. */
  async recording(query: { version?: 2 | 3; from?: number } = {}): Promise<string> {
    return (await this.#http.send('GET', this.#path('/recording'), { query })).text();
  }

  /** What a terminal shows now: its lines, cursor, title and modes, and after which byte of the log. */
  screen(): Promise<Screen> {
    return this.#http.json('GET', this.#path('/screen'));
  }

  /** The same as a picture. */
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

  /** Lets somebody without a token attach, once, within a minute. */
  ticket(role: Role = 'writer'): Promise<Ticket> {
    return this.#http.json('POST', '/v1/tickets', { body: { processId: this.id, role }, isRepeatable: true });
  }

  /** What it prints, as it comes, across lost connections; and a way to type. */
  attach(options: AttachOptions = {}): Attachment {
    return new Attachment(this.#http, this, options);
  }
}

function base64(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}
