import { Backoff } from './backoff.js';
import { OutliveError } from './error.js';

export interface Options {
  /** Such as `http://127.0.0.1:2468`. Defaults to the page's origin, which is right for pages served by outlive. */
  url?: string;
  token?: string;
  fetch?: typeof fetch;
  /** Needed without a global WebSocket (Node before 22): the class of the `ws` package. */
  WebSocket?: SocketClass;
}

/** The subset of WebSocket in use, loose enough to accept both the browser's class and that of `ws`. */
export interface Socket {
  readonly readyState: number;
  send(data: string | Uint8Array<ArrayBuffer>): void;
  close(code?: number): void;
  // The event types of the two classes have nothing in common.
  binaryType: any;
  onmessage: any;
  onclose: any;
  onerror: any;
}

// The constructor of `ws` is overloaded; no single argument type fits it.
export type SocketClass = new (url: any) => Socket;

export interface Call {
  query?: Record<string, string | number | boolean | null | undefined>;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
  /** Sending the request twice has the same effect as once. Defaults to true for GET. */
  isRepeatable?: boolean;
}

/** How long requests are retried when the connection is lost: the holder replaces a dead server immediately. */
const RETRY_TIMEOUT_MS = 10_000;

/** Sends authenticated requests and turns error responses into `OutliveError`. */
export class Http {
  readonly #base: string;
  readonly #fetch: typeof fetch;
  readonly #socketClass: SocketClass | undefined;
  readonly hasToken: boolean;
  readonly #token: string | undefined;

  constructor(options: Options) {
    const pageOrigin = (globalThis as { location?: { origin: string } }).location?.origin;
    const url = options.url ?? pageOrigin;
    if (!url) throw new OutliveError('no_url', 'url is missing; use new Outlive({ url: "http://127.0.0.1:2468" })');
    this.#base = url.replace(/\/+$/, '');
    this.#fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
    this.#socketClass = options.WebSocket ?? (globalThis as { WebSocket?: SocketClass }).WebSocket;
    this.#token = options.token;
    this.hasToken = options.token !== undefined;
  }

  async json<T>(method: string, path: string, call: Call = {}): Promise<T> {
    const backoff = new Backoff();
    const startedAt = Date.now();
    for (;;) {
      try {
        const response = await this.send(method, path, call);
        const text = await response.text().catch(throwConnectionLost);
        return (text === '' ? undefined : JSON.parse(text)) as T;
      } catch (error) {
        const isLost = error instanceof OutliveError && error.code === 'connection_lost' && !error.isHopeless;
        const canRepeat = call.isRepeatable ?? method === 'GET';
        const isTimedOut = Date.now() - startedAt > RETRY_TIMEOUT_MS;
        if (!isLost || !canRepeat || call.signal?.aborted || isTimedOut) throw error;
        await backoff.pause(call.signal);
      }
    }
  }

  /** Resolves with a successful response; rejects with `OutliveError` otherwise. */
  async send(method: string, path: string, call: Call = {}): Promise<Response> {
    const headers: Record<string, string> = { ...call.headers };
    if (this.#token !== undefined) headers['authorization'] = `Bearer ${this.#token}`;
    const init: RequestInit = { method, headers };
    if (call.body !== undefined) {
      headers['content-type'] = 'application/json';
      init.body = JSON.stringify(call.body);
    }
    if (call.signal) init.signal = call.signal;
    const response = await this.#fetch(this.#base + path + queryString(call.query), init).catch((error: unknown) => {
      if (call.signal?.aborted) throw error;
      return throwConnectionLost(error);
    });
    if (!response.ok) throw await OutliveError.of(response);
    return response;
  }

  socket(path: string, parameters: Call['query']): Socket {
    if (!this.#socketClass) {
      throw new OutliveError(
        'no_websocket',
        'there is no global WebSocket; pass the class of the ws package as { WebSocket }',
      );
    }
    const url = new URL(this.#base + path + queryString(parameters));
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
    return new this.#socketClass(url.href);
  }
}

function throwConnectionLost(error: unknown): never {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  const reason = cause instanceof Error ? cause.message : String(cause);
  const code = (cause as { code?: unknown }).code;
  const isHopeless = code === 'ECONNREFUSED' || code === 'ENOTFOUND' || reason === 'bad port';
  throw new OutliveError('connection_lost', `no response from the server: ${reason}`, 0, undefined, isHopeless);
}

function queryString(parameters: Call['query']): string {
  const present = Object.entries(parameters ?? {}).filter(([, value]) => value !== undefined && value !== null);
  return present.length === 0 ? '' : `?${new URLSearchParams(present.map(([name, value]) => [name, String(value)]))}`;
}

/** A value for `Idempotency-Key`. `crypto.randomUUID` is missing in pages served without TLS. */
export function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
