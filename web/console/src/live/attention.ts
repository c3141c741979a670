/** A browser has few connections to one server over HTTP/1.1, for all tabs together: one that nobody looks at gives its own back. */
const HIDDEN_FOR_MS = 20_000;

/** Resolves while the page is looked at. */
export function untilVisible(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (!document.hidden || signal.aborted) return resolve();
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener('visibilitychange', look);
      resolve();
    };
    document.addEventListener('visibilitychange', look);
    signal.addEventListener('abort', look, { once: true });
  });
}

/** Aborted when nobody has looked at the page for a while, or with `over`. */
export function whileVisible(over: AbortSignal): AbortSignal {
  const hidden = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const look = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(() => hidden.abort(), HIDDEN_FOR_MS);
  };
  document.addEventListener('visibilitychange', look, { signal: hidden.signal });
  over.addEventListener('abort', () => hidden.abort(), { once: true, signal: hidden.signal });
  look();
  return hidden.signal;
}
