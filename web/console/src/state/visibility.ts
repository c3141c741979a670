/** Limits server connections to visible pages: over HTTP/1.1 all tabs of a browser share six of them per server. */

const HIDDEN_TIMEOUT_MS = 20_000;

/** Resolves when the page is visible or `signal` is aborted. */
export function untilVisible(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (!document.hidden || signal.aborted) return resolve();
    const check = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener('visibilitychange', check);
      resolve();
    };
    document.addEventListener('visibilitychange', check);
    signal.addEventListener('abort', check, { once: true });
  });
}

/** A signal that is aborted with `parent`, or when the page has been hidden for `HIDDEN_TIMEOUT_MS`. */
export function whileVisible(parent: AbortSignal): AbortSignal {
  const controller = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const check = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(() => controller.abort(), HIDDEN_TIMEOUT_MS);
  };
  document.addEventListener('visibilitychange', check, { signal: controller.signal });
  parent.addEventListener('abort', () => controller.abort(), { once: true, signal: controller.signal });
  check();
  return controller.signal;
}
