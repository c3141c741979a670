import { Backoff } from './backoff.js';
import { OutliveError } from './error.js';
import type { Http } from './http.js';
import { serverEvents } from './sse.js';
import type { ProcessInfo, SessionInfo } from './types.js';

export interface ProcessEvent {
  type: 'process.created' | 'process.updated' | 'process.exited' | 'process.deleted';
  /** Resume after this event with `events({ after })`. */
  id: string;
  atMs: number;
  reason?: string;
  process: ProcessInfo;
}

export interface SessionEvent {
  type: 'session.created' | 'session.updated' | 'session.exited' | 'session.deleted';
  id: string;
  atMs: number;
  reason?: 'shellRestarted' | 'execQueued' | 'execStarted' | 'execFinished';
  /** The command that was queued, started or finished. */
  execId?: string;
  session: SessionInfo;
}

export type OutliveEvent =
  | ProcessEvent
  | SessionEvent
  /** Events were lost: read the lists of processes and sessions again. */
  | { type: 'reset'; id: string };

export interface EventFilter {
  type?: string;
  processId?: string;
  tag?: string;
  sessionId?: string;
  after?: string;
  signal?: AbortSignal;
}

/** The server sends a comment every 15 s. A connection that is silent for this long is dead. */
const IDLE_TIMEOUT_MS = 45_000;

/** An endless stream of events that survives lost connections and server restarts. */
export async function* events(http: Http, { after, signal, ...filter }: EventFilter): AsyncGenerator<OutliveEvent> {
  const backoff = new Backoff();
  let lastId = after;
  while (!signal?.aborted) {
    const connection = new AbortController();
    const abort = () => connection.abort();
    signal?.addEventListener('abort', abort);
    let timer = setTimeout(abort, IDLE_TIMEOUT_MS);
    const restartTimer = () => {
      clearTimeout(timer);
      timer = setTimeout(abort, IDLE_TIMEOUT_MS);
    };
    try {
      const headers: Record<string, string> = { accept: 'text/event-stream' };
      if (lastId !== undefined) headers['last-event-id'] = lastId;
      const response = await http.send('GET', '/v1/events', { query: filter, headers, signal: connection.signal });
      if (!response.body) return;
      const body = response.body.pipeThrough(
        new TransformStream<Uint8Array, Uint8Array>({
          transform(chunk, controller) {
            restartTimer();
            controller.enqueue(chunk);
          },
        }),
      );
      for await (const { event, id, data } of serverEvents(body)) {
        backoff.reset();
        lastId = id ?? lastId;
        yield { ...(JSON.parse(data) as object), type: event, id: lastId ?? '' } as OutliveEvent;
      }
    } catch (error) {
      if (signal?.aborted) return;
      // A request that the server refused would be refused again.
      if (error instanceof OutliveError && !error.isPassing) throw error;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
      connection.abort();
    }
    await backoff.pause(signal);
  }
}
