import { readFragment } from './fragment.js';

const KEPT_AS = 'outlive.token';

/** From the address, where it is taken away at once, or from before a reload. It is kept for this tab only. */
export function takeToken(): string | undefined {
  const given = readFragment(location.hash);
  if (given.kind === 'token') {
    keepToken(given.token);
    hideFragment();
  }
  return sessionStorage.getItem(KEPT_AS) ?? undefined;
}

export function keepToken(token: string): void {
  sessionStorage.setItem(KEPT_AS, token);
}

export function forgetToken(): void {
  sessionStorage.removeItem(KEPT_AS);
}

/** Secrets do not stay in the address bar or the history. */
export function hideFragment(): void {
  history.replaceState(null, '', location.pathname + location.search);
}
