/** What the part after `#` of our address says. It never leaves the browser. */
export type Fragment =
  | { kind: 'token'; token: string }
  /** Somebody shared one terminal with us. */
  | { kind: 'ticket'; ticket: string; process: string }
  | { kind: 'none' };

export function readFragment(hash: string): Fragment {
  const given = new URLSearchParams(hash.replace(/^#/, ''));
  const ticket = given.get('ticket');
  const process = given.get('process');
  if (ticket && process) return { kind: 'ticket', ticket, process };
  const token = given.get('token');
  return token ? { kind: 'token', token } : { kind: 'none' };
}

/** A link that opens one terminal, read-only. `page` is the address of the console. */
export function shareLink(page: string, ticket: string, process: string): string {
  const url = new URL(page);
  url.hash = new URLSearchParams({ ticket, process }).toString();
  return url.href;
}
