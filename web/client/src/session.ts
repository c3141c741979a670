import { OutliveError } from './error.js';
import { type Http, randomKey } from './http.js';
import { Process } from './process.js';
import { type ServerEvent, serverEvents } from './sse.js';
import type { ExecInfo, ExecOptions, ExecResult, ProcessInfo, SessionInfo, StartOptions } from './types.js';

/** What a command of a session does, as it happens. */
export type ExecItem =
  | { type: 'start'; execId: string }
  /** `offset`: position of the first byte in the command's output. */
  | { type: 'stdout' | 'stderr'; offset: number; bytes: Uint8Array }
  | { type: 'gap'; from: number; to: number }
  | { type: 'end'; exec: ExecInfo };

/** A persistent shell: working directory, variables and functions carry over between commands. */
export class Session {
  readonly #http: Http;

  constructor(
    http: Http,
    readonly id: string,
  ) {
    this.#http = http;
  }

  #path(suffix = ''): string {
    return `/v1/sessions/${encodeURIComponent(this.id)}${suffix}`;
  }

  info(): Promise<SessionInfo> {
    return this.#http.json('GET', this.#path());
  }

  /**
   * Runs a command after the previous ones and resolves when it has ended. If the response is lost, the request is
   * repeated with the same idempotency key, so the command does not run twice.
   */
  exec(command: string | ExecOptions, signal?: AbortSignal): Promise<ExecResult> {
    const body = typeof command === 'string' ? { command } : command;
    const headers = { 'idempotency-key': randomKey() };
    return this.#http.json('POST', this.#path('/exec'), { body, headers, signal, isRepeatable: true });
  }

  /**
   * Runs a command and streams its output. Losing the stream does not end the command: `result` with its `execId`
   * returns the complete output.
   */
  async *stream(command: string | ExecOptions, signal?: AbortSignal): AsyncGenerator<ExecItem> {
    const body = { ...(typeof command === 'string' ? { command } : command), stream: true };
    const headers = { accept: 'text/event-stream' };
    const response = await this.#http.send('POST', this.#path('/exec'), { body, headers, signal });
    if (!response.body) return;
    for await (const event of serverEvents(response.body)) {
      const item = parseExecEvent(event);
      if (item) yield item;
    }
  }

  /** A command with its output. `wait`: resolves when it has ended. */
  result(
    execId: string,
    query: { wait?: boolean; maxOutputBytes?: number; encoding?: 'utf8' | 'base64' } = {},
  ): Promise<ExecResult> {
    return this.#http.json('GET', this.#path(`/execs/${encodeURIComponent(execId)}`), { query });
  }

  async execs(): Promise<ExecInfo[]> {
    return (await this.#http.json<{ execs: ExecInfo[] }>('GET', this.#path('/execs'))).execs;
  }

  cancel(execId: string): Promise<ExecInfo> {
    return this.#http.json('POST', this.#path(`/execs/${encodeURIComponent(execId)}/cancel`));
  }

  /** Starts a process with a copy of the session's state. */
  async start(options: StartOptions & { killWithSession?: boolean }): Promise<Process> {
    const info = await this.#http.json<ProcessInfo>('POST', this.#path('/processes'), { body: options });
    return new Process(this.#http, info.id);
  }

  delete(): Promise<void> {
    return this.#http.json('DELETE', this.#path());
  }
}

/** Throws the error of an `error` event. Unknown events are ignored. */
function parseExecEvent({ event, data }: ServerEvent): ExecItem | undefined {
  const body = JSON.parse(data);
  switch (event) {
    case 'start':
      return { type: 'start', execId: body.execId };
    case 'stdout':
    case 'stderr': {
      const bytes = body.encoding === 'base64' ? decodeBase64(body.data) : new TextEncoder().encode(body.data);
      return { type: event, offset: body.offset, bytes };
    }
    case 'gap':
      return { type: 'gap', from: body.from, to: body.to };
    case 'end':
      return { type: 'end', exec: body };
    case 'error': {
      const message = body.detail ?? body.message ?? 'the command failed';
      throw new OutliveError(body.code ?? 'failed', message, body.status ?? 0, body.details);
    }
    default:
      return undefined;
  }
}

function decodeBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}
