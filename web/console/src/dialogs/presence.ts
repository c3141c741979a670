import type { AttachmentInfo } from '@outlive/client';
import type { Console } from '../console.js';
import { element, fill, setText } from '../page/element.js';
import { iconButton } from '../panes/frame.js';
import { showAge } from '../state/clock.js';

const REFRESH_INTERVAL_MS = 2_000;

/** Accepts servers before and after `size` and `sinceMs` replaced `cols`, `rows` and `attachedAtMs`. */
type AnyAttachmentInfo = AttachmentInfo & { cols?: number; rows?: number; attachedAtMs?: number };

export interface PresenceButton {
  element: HTMLElement;
  /** Reports input or output: the client that typed last may have changed, for which there is no event. */
  noteActivity(): void;
  dispose(): void;
}

/** A button with the number of attached clients; a click lists them. */
export function presenceButton(console: Console, id: string): PresenceButton {
  let changes = 0;
  const count = element('span', { class: 'count' });
  const button = iconButton('people', 'Attached clients', () => openPresence(console, id, button, () => changes), {
    class: 'quiet presence',
    'data-testid': 'presence',
  });
  button.append(count);
  const update = () => {
    const attached = console.processes.get(id)?.attachments ?? 0;
    setText(count, String(attached));
    button.hidden = attached === 0;
    button.setAttribute('aria-label', attachedLabel(attached));
    button.classList.toggle('several', attached > 1);
  };
  const dispose = console.processes.onChange((changed) => {
    if (changed && changed.id !== id) return;
    changes += 1;
    update();
  });
  update();
  return { element: button, noteActivity: () => (changes += 1), dispose };
}

/** Lists the attached clients and refreshes while open. `changes` counts events that may have changed the list. */
function openPresence(console: Console, id: string, button: HTMLElement, changes: () => number): void {
  const list = element('ul', { class: 'clients' });
  const label = 'Attached clients';
  const box = element(
    'div',
    { class: 'menu clients-box', popover: 'auto', role: 'dialog', 'aria-label': label, 'data-testid': 'clients' },
    list,
  );
  let seenChanges = -1;
  const refresh = async () => {
    if (changes() === seenChanges) return;
    seenChanges = changes();
    try {
      fill(list, ...clientRows((await console.outlive.process(id).attachments()) as AnyAttachmentInfo[]));
    } catch {
      fill(list, element('li', {}, attachedLabel(console.processes.get(id)?.attachments ?? 0)));
    }
  };
  const timer = setInterval(() => void refresh(), REFRESH_INTERVAL_MS);
  box.addEventListener('toggle', (event) => {
    if ((event as ToggleEvent).newState !== 'closed') return;
    clearInterval(timer);
    box.remove();
  });
  document.body.append(box);
  box.showPopover();
  const anchor = button.getBoundingClientRect();
  box.style.top = `${anchor.bottom + 4}px`;
  box.style.left = `${Math.max(8, Math.min(anchor.right - 300, innerWidth - 308))}px`;
  void refresh();
}

function attachedLabel(count: number): string {
  return count === 1 ? '1 client attached' : `${count} clients attached`;
}

function clientRows(clients: AnyAttachmentInfo[]): Node[] {
  const [lastTyped] = clients
    .filter(({ lastInputAtMs }) => lastInputAtMs)
    .sort((one, other) => other.lastInputAtMs! - one.lastInputAtMs!);
  return clients.map((client) => {
    const [cols, rows] = [client.cols ?? client.size?.cols, client.rows ?? client.size?.rows];
    const since = element('span', {});
    showAge(since, client.attachedAtMs ?? client.sinceMs);
    const typedAgo = element('span', {});
    if (client.lastInputAtMs) showAge(typedAgo, client.lastInputAtMs);
    const role = client.role === 'viewer' ? 'read-only' : 'read-write';
    const size = cols ? `${cols}×${rows}` : '';
    return element(
      'li',
      {},
      element(
        'span',
        { class: 'peer' },
        client.peer ?? 'local',
        element('span', { class: `role ${client.role}` }, role),
      ),
      element(
        'span',
        { class: 'activity' },
        'attached ',
        since,
        ' ago',
        ...(client.lastInputAtMs ? [', typed ', typedAgo, ' ago'] : []),
      ),
      element(
        'span',
        { class: 'badges' },
        client === lastTyped ? element('span', { class: 'badge' }, 'typed last') : null,
        client.sizes
          ? element('span', { class: 'badge' }, `effective size ${size}`)
          : size
            ? element('span', { class: 'badge plain' }, size)
            : null,
      ),
    );
  });
}
