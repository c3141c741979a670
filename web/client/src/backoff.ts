const INITIAL_MS = 100;
const MAX_MS = 10_000;

/** Exponential backoff with jitter, so that clients do not reconnect in step. */
export class Backoff {
  #next = INITIAL_MS;

  reset(): void {
    this.#next = INITIAL_MS;
  }

  pause(signal?: AbortSignal): Promise<void> {
    const ms = this.#next * (0.5 + Math.random() / 2);
    this.#next = Math.min(this.#next * 2, MAX_MS);
    return sleep(ms, signal);
  }
}

/** Resolves early, without an error, when `signal` is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const finish = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', finish);
      resolve();
    };
    const timer = setTimeout(finish, ms);
    signal?.addEventListener('abort', finish);
  });
}
