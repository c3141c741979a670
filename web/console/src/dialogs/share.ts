import type { TicketInfo } from '@outlive/client';
import { shareLink } from '../access/credentials.js';
import type { Console } from '../console.js';
import { openDialog } from '../page/dialog.js';
import { element, fill, setText } from '../page/element.js';
import { labelled } from '../page/form.js';
import { formatAge } from '../state/format.js';

const MINUTE_MS = 60_000;

/** How long a link is valid. All but the first can be opened again, also after a lost connection. */
const VALIDITIES = [
  { label: 'One opening within a minute', ttlMs: MINUTE_MS, uses: 1 },
  { label: 'An hour', ttlMs: 60 * MINUTE_MS, uses: 1000 },
  { label: 'A day', ttlMs: 24 * 60 * MINUTE_MS, uses: 1000 },
];

/** Creates links that show the terminal read-only and need no token, and revokes them. */
export function openShare(console: Console, id: string): void {
  openDialog('Share read-only', 'share', (close) => {
    const choices = VALIDITIES.map(({ label }) => element('option', {}, label));
    const validity = element('select', { 'data-testid': 'share-validity', onchange: () => void create() }, ...choices);
    const link = element('input', {
      readonly: true,
      'aria-label': 'Link',
      class: 'mono',
      'data-testid': 'share-link',
      onfocus: () => link.select(),
    });
    const expiry = element('p', { class: 'hint', role: 'status' });
    const renew = element('button', { type: 'button', onclick: () => void create() }, 'New link');
    const copyLink = () => void console.notices.attempt(() => console.copy(link.value));
    const copy = element('button', { type: 'button', class: 'primary', onclick: copyLink }, 'Copy link');
    let timer: ReturnType<typeof setInterval> | undefined;
    let ticketId: string | undefined;

    const setUsable = (isUsable: boolean) => {
      copy.disabled = !isUsable;
      link.disabled = !isUsable;
    };
    const invalidate = (reason: string) => {
      clearInterval(timer);
      setText(expiry, reason);
      setUsable(false);
    };
    const links = linkList(console, id, (revoked) => {
      if (revoked === ticketId) invalidate('Revoked. Create a new link.');
    });

    async function create(): Promise<void> {
      clearInterval(timer);
      link.value = '';
      const { ttlMs, uses } = VALIDITIES[validity.selectedIndex]!;
      // One request at a time, so that the link on display is the one that was asked for last.
      validity.disabled = renew.disabled = true;
      const isCreated = await console.notices.attempt(async () => {
        const created = await console.outlive.process(id).ticket('viewer', { ttlMs, uses });
        ticketId = created.id;
        const shared = { ticket: created.ticket, process: id, isReusable: uses > 1 };
        link.value = shareLink(location.origin + location.pathname, shared);
        const usesLabel = uses > 1 ? `Works up to ${uses} times.` : 'Works once.';
        const expiresAt = Date.now() + created.expiresInMs;
        const countDown = () => {
          const leftMs = expiresAt - Date.now();
          if (leftMs <= 0) invalidate('Expired. Create a new link.');
          else setText(expiry, `Expires in ${formatAge(leftMs + 999)}. ${usesLabel}`);
          if (!expiry.isConnected) clearInterval(timer);
        };
        timer = setInterval(countDown, 500);
        setUsable(true);
        countDown();
      });
      validity.disabled = renew.disabled = false;
      if (!isCreated) return close();
      link.select();
      await links.refresh();
    }

    void create();
    const explanation =
      'Anyone who opens this link sees the terminal and its earlier output, and cannot type. ' +
      'Revoking a link does not close the views that are open.';
    return [
      element('p', {}, explanation),
      element('form', {}, labelled('Valid for', validity)),
      link,
      expiry,
      links.element,
      element('footer', {}, renew, copy),
    ];
  });
}

interface LinkList {
  element: HTMLElement;
  refresh(): Promise<void>;
}

/** The valid links to a terminal, each with a button that revokes it. Links for one opening are not listed. */
function linkList(console: Console, processId: string, onRevoke: (ticketId: string) => void): LinkList {
  const list = element('ul', { class: 'share-links', 'aria-label': 'Valid links' });
  const isListed = (ticket: TicketInfo) => {
    const isLongLived = ticket.usesLeft > 1 || ticket.expiresAtMs - Date.now() > MINUTE_MS;
    return ticket.processId === processId && ticket.role === 'viewer' && isLongLived;
  };
  const revoke = async (id: string) => {
    if (await console.notices.attempt(() => console.outlive.revokeTicket(id))) onRevoke(id);
    await refresh();
  };
  const row = ({ id, issuedBy, expiresAtMs, usesLeft }: TicketInfo) => {
    const text = `By ${issuedBy}, expires in ${formatAge(expiresAtMs - Date.now() + 999)}, uses left: ${usesLeft}`;
    const button = element('button', { type: 'button', onclick: () => void revoke(id) }, 'Revoke');
    return element('li', { 'data-testid': 'active-link' }, element('span', {}, text), button);
  };
  const refresh = async () => {
    await console.notices.attempt(async () => {
      const tickets = await console.outlive.tickets();
      fill(list, ...tickets.filter(isListed).map(row));
    });
  };
  return { element: list, refresh };
}
