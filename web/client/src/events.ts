import { Backoff } from './backoff.js';
import type { Http } from './http.js';
import { OutliveError } from './problem.js';
import { serverEvents } from './sse.js';
import type { ProcessInfo } from './types.js';

export type OutliveEvent =
  | {
      type: 'process.created' | 'process.updated' | 'process.exited' | 'process.deleted';
      /** To go on after it: `events({ after })`. */
      id: string;
      atMs: number;
      reason?: string;
      process: ProcessInfo;
    }
  /** Events in between are gone: look at the list again. */
  | { type: 'reset'; id: string };

export interface EventFilter {
  type?: string;
  processId?: string;
  tag?: string;
  sessionId?: string;
  after?: string;
  signal?: AbortSignal;
}

/** Comments come every 15 s; without any sign for this long the line is dead. */
const DEAD_AFTER_MS = 45_000;

/** What happens, without end, across lost connections and new servers. */
export async function* events(http: Http, { after, signal, ...filter }: EventFilter): AsyncGenerator<OutliveEvent> {
  const backoff = new Backoff();
  let last = after;
  while (!signal?.aborted) {
    const line = new AbortController();
    const abort = () => line.abort();
    signal?.addEventListener('abort', abort);
    let timer = setTimeout(abort, DEAD_AFTER_MS);
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(abort, DEAD_AFTER_MS);
    };
    try {
      const headers: Record<string, string> = { accept: 'text/event-stream' };
      if (last !== undefined) headers['last-event-id'] = last;
      const response = await http.send('GET', '/v1/events', { query: filter, headers, signal: line.signal });
      if (!response.body) return;
      const watched = response.body.pipeThrough(
        new TransformStream<Uint8Array, Uint8Array>({
          transform(piece, out) {
            alive();
            out.enqueue(piece);
          },
        }),
      );
      for await (const { event, id, data } of serverEvents(watched)) {
        backoff.reset();
        last = id ?? last;
        yield { ...(JSON.parse(data) as object), type: event, id: last ?? '' } as OutliveEvent;
      }
    } catch (error) {
      if (signal?.aborted) return;
      // What was refused is refused the next time too.
      if (error instanceof OutliveError && !error.isPassing) throw error;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
      line.abort();
    }
    await backoff.pause(signal);
  }
}
