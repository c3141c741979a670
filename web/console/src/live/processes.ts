import { type Outlive, OutliveError, type OutliveEvent, type ProcessInfo } from '@outlive/client';
import { untilVisible, whileVisible } from './attention.js';

/** An event that never was: the answer begins with `reset`, so that the list is asked for when the stream is open, and nothing falls between. */
const BEFORE_ALL = '0-0';

/** Between attempts to read the list, when it was lost on its way. */
const AGAIN_AFTER_MS = 1_000;

type Listener = (changed: ProcessInfo | undefined) => void;

/** All processes, as the server's events tell. Nothing is ever asked for twice. */
export class Processes {
  readonly #outlive: Outlive;
  readonly #known = new Map<string, ProcessInfo>();
  readonly #listeners = new Set<Listener>();
  /** The list has been read. */
  isKnown = false;

  constructor(outlive: Outlive) {
    this.#outlive = outlive;
  }

  /** Until the signal; throws what the server refuses. */
  async follow(signal: AbortSignal): Promise<void> {
    let after = BEFORE_ALL;
    for (;;) {
      await untilVisible(signal);
      if (signal.aborted) return;
      try {
        for await (const event of this.#outlive.events({ after, signal: whileVisible(signal) })) {
          await this.#take(event);
          after = event.id;
        }
      } catch (error) {
        // The stream comes back by itself; the list that belongs to its beginning does not.
        if (!(error instanceof OutliveError) || !error.isPassing) throw error;
        await new Promise((resolve) => setTimeout(resolve, AGAIN_AFTER_MS));
      }
    }
  }

  get(id: string): ProcessInfo | undefined {
    return this.#known.get(id);
  }

  /** Newest first. */
  all(): ProcessInfo[] {
    return [...this.#known.values()].sort((one, other) => other.createdAtMs - one.createdAtMs);
  }

  /** Called with what changed, or with nothing when all may have. Answers how to stop listening. */
  onChange(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** An answer of the server tells it before its event does; if not, the event is the truth. */
  learn(process: ProcessInfo): void {
    const known = this.#known.get(process.id);
    if (!known || isNewer(process, known)) this.#set(process);
  }

  #set(process: ProcessInfo): void {
    if (process.ephemeral) return;
    this.#known.set(process.id, process);
    this.#tell(process);
  }

  forget(id: string): void {
    const process = this.#known.get(id);
    if (this.#known.delete(id)) this.#tell(process);
  }

  async #take(event: OutliveEvent): Promise<void> {
    if (event.type === 'reset') {
      const list = await this.#outlive.processes();
      this.#known.clear();
      for (const process of list) if (!process.ephemeral) this.#known.set(process.id, process);
      this.isKnown = true;
      this.#tell(undefined);
    } else if (event.type === 'process.deleted') {
      this.forget(event.process.id);
    } else {
      this.#set(event.process);
    }
  }

  #tell(changed: ProcessInfo | undefined): void {
    for (const listener of this.#listeners) listener(changed);
  }
}

const ORDER = { created: 0, running: 1, exited: 2 };

/** A process is created, runs and exits, and a start after that is another generation. */
export function isNewer(one: ProcessInfo, other: ProcessInfo): boolean {
  if (one.generation !== other.generation) return one.generation > other.generation;
  return ORDER[one.status] > ORDER[other.status];
}
