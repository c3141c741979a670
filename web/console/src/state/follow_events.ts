import { type Outlive, OutliveError } from '@outlive/client';
import type { Processes } from './processes.js';
import type { Sessions } from './sessions.js';
import { untilVisible, whileVisible } from './visibility.js';

/**
 * An event id that never existed. The server responds with `reset`, so the lists are read after the stream is open and
 * no event is missed in between.
 */
const UNKNOWN_EVENT_ID = '0-0';

/** Pause before the lists are read again after a lost connection. */
const RETRY_DELAY_MS = 1_000;

/**
 * Keeps both lists up to date by one event stream, until `signal` is aborted. Rejects when the server refuses. Events
 * of types that this page does not know are ignored: the server may be newer.
 */
export async function followEvents(
  outlive: Outlive,
  processes: Processes,
  sessions: Sessions,
  signal: AbortSignal,
): Promise<void> {
  let after = UNKNOWN_EVENT_ID;
  for (;;) {
    await untilVisible(signal);
    if (signal.aborted) return;
    try {
      for await (const event of outlive.events({ after, signal: whileVisible(signal) })) {
        if (event.type === 'reset') await Promise.all([processes.load(), sessions.load()]);
        else if ('process' in event) processes.apply(event);
        else if ('session' in event) sessions.apply(event);
        after = event.id;
      }
    } catch (error) {
      // The client reopens the stream itself; only reading the lists after a `reset` fails here.
      if (!(error instanceof OutliveError) || !error.isPassing) throw error;
      await new Promise((resolve) => setTimeout(resolve, RETRY_DELAY_MS));
    }
  }
}
