const FIRST_MS = 100;
const MOST_MS = 10_000;

/** Pauses between attempts: twice as long each time, and never the same for two clients. */
export class Backoff {
  #next = FIRST_MS;

  reset(): void {
    this.#next = FIRST_MS;
  }

  pause(signal?: AbortSignal): Promise<void> {
    const ms = this.#next * (0.5 + Math.random() / 2);
    this.#next = Math.min(this.#next * 2, MOST_MS);
    return sleep(ms, signal);
  }
}

/** Ends early, without an error, when `signal` is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const over = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', over);
      resolve();
    };
    const timer = setTimeout(over, ms);
    signal?.addEventListener('abort', over);
  });
}
