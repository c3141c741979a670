/** Tokens and tickets in the page's address, and the token stored for this tab. */

const TOKEN_KEY = 'outlive.token';

export interface SharedTicket {
  ticket: string;
  process: string;
  /** The ticket can be used again after the connection is lost. */
  isReusable: boolean;
}

/** The part of the address after `#`. Browsers do not send it. */
export type Fragment =
  | { kind: 'token'; token: string }
  /** A share link to one terminal. */
  | ({ kind: 'ticket' } & SharedTicket)
  | { kind: 'none' };

export function readFragment(hash: string): Fragment {
  const parameters = new URLSearchParams(hash.replace(/^#/, ''));
  const ticket = parameters.get('ticket');
  const process = parameters.get('process');
  if (ticket && process) return { kind: 'ticket', ticket, process, isReusable: parameters.has('reusable') };
  const token = parameters.get('token');
  return token ? { kind: 'token', token } : { kind: 'none' };
}

/** A link that opens one terminal read-only. `page` is the console's address. */
export function shareLink(page: string, { ticket, process, isReusable }: SharedTicket): string {
  const url = new URL(page);
  url.hash = new URLSearchParams({ ticket, process, ...(isReusable && { reusable: '1' }) }).toString();
  return url.href;
}

/** Removes credentials from the address bar and the history. */
export function clearFragment(): void {
  history.replaceState(null, '', location.pathname + location.search);
}

/** Moves a token from the address into the tab's storage, and returns the stored token. */
export function takeToken(): string | undefined {
  const fragment = readFragment(location.hash);
  if (fragment.kind === 'token') {
    storeToken(fragment.token);
    clearFragment();
  }
  return sessionStorage.getItem(TOKEN_KEY) ?? undefined;
}

export function storeToken(token: string): void {
  sessionStorage.setItem(TOKEN_KEY, token);
}

export function forgetToken(): void {
  sessionStorage.removeItem(TOKEN_KEY);
}
