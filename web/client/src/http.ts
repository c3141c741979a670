import { Backoff } from './backoff.js';
import { OutliveError } from './problem.js';

/** What a connection to outlive needs to know. */
export interface Options {
  /** Such as `http://127.0.0.1:2468`; in a page of outlive's own it may be left out. */
  url?: string;
  token?: string;
  fetch?: typeof fetch;
  /** Where there is no global one (Node before 22): the class of `ws`. */
  WebSocket?: SocketClass;
}

/** As much of a WebSocket as is needed; loose, so that the browser's and that of `ws` are both one. */
export interface Socket {
  readonly readyState: number;
  send(data: string | Uint8Array<ArrayBuffer>): void;
  close(code?: number): void;
  // Their types of events have nothing in common.
  binaryType: any;
  onmessage: any;
  onclose: any;
  onerror: any;
}

// The constructor of `ws` is overloaded in a way that no single type of its argument fits.
export type SocketClass = new (url: any) => Socket;

export interface Call {
  query?: Record<string, string | number | boolean | null | undefined>;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
  /** Asked twice it is the same; default: what only looks. */
  isRepeatable?: boolean;
}

/** How long a server that was lost in the middle of an answer is asked again: its holder starts another at once. */
const PATIENCE_MS = 10_000;

/** Requests with the token, and refusals as errors. */
export class Http {
  readonly #base: string;
  readonly #fetch: typeof fetch;
  readonly #socket: SocketClass | undefined;
  readonly hasToken: boolean;
  readonly #token: string | undefined;

  constructor(options: Options) {
    const here = (globalThis as { location?: { origin: string } }).location?.origin;
    const url = options.url ?? here;
    if (!url) throw new OutliveError('no_url', 'say where outlive is: new Outlive({ url: "http://127.0.0.1:2468" })');
    this.#base = url.replace(/\/+$/, '');
    this.#fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
    this.#socket = options.WebSocket ?? (globalThis as { WebSocket?: SocketClass }).WebSocket;
    this.#token = options.token;
    this.hasToken = options.token !== undefined;
  }

  async json<T>(method: string, path: string, call: Call = {}): Promise<T> {
    const backoff = new Backoff();
    const begun = Date.now();
    for (;;) {
      try {
        const response = await this.send(method, path, call);
        const text = await response.text().catch(lost);
        return (text === '' ? undefined : JSON.parse(text)) as T;
      } catch (error) {
        const isLost = error instanceof OutliveError && error.code === 'connection_lost' && !error.isHopeless;
        const mayRepeat = call.isRepeatable ?? method === 'GET';
        if (!isLost || !mayRepeat || call.signal?.aborted || Date.now() - begun > PATIENCE_MS) throw error;
        await backoff.pause(call.signal);
      }
    }
  }

  /** The answer, if it is not a refusal. */
  async send(method: string, path: string, call: Call = {}): Promise<Response> {
    const headers: Record<string, string> = { ...call.headers };
    if (this.#token !== undefined) headers['authorization'] = `Bearer ${this.#token}`;
    const init: RequestInit = { method, headers };
    if (call.body !== undefined) {
      headers['content-type'] = 'application/json';
      init.body = JSON.stringify(call.body);
    }
    if (call.signal) init.signal = call.signal;
    const response = await this.#fetch(this.#base + path + query(call.query), init).catch((error: unknown) => {
      if (call.signal?.aborted) throw error;
      return lost(error);
    });
    if (!response.ok) throw await OutliveError.of(response);
    return response;
  }

  socket(path: string, parameters: Call['query']): Socket {
    if (!this.#socket) {
      throw new OutliveError('no_websocket', 'this Node has no WebSocket: pass { WebSocket } of the package ws');
    }
    const url = new URL(this.#base + path + query(parameters));
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
    return new this.#socket(url.href);
  }
}

function lost(error: unknown): never {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  const why = cause instanceof Error ? cause.message : String(cause);
  const code = (cause as { code?: unknown }).code;
  const isHopeless = code === 'ECONNREFUSED' || code === 'ENOTFOUND' || why === 'bad port';
  throw new OutliveError('connection_lost', `no answer from the server: ${why}`, 0, undefined, isHopeless);
}

function query(parameters: Call['query']): string {
  const given = Object.entries(parameters ?? {}).filter(([, value]) => value !== undefined && value !== null);
  return given.length === 0 ? '' : `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}`;
}

/** For `Idempotency-Key`. `crypto.randomUUID` is missing in pages that come without TLS. */
export function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
