import type { AttachmentInfo } from '@outlive/client';
import type { Console } from '../console.js';
import { showAge } from '../live/clock.js';
import { element, fill } from '../page/element.js';

const ASK_EVERY_MS = 2_000;

/** An attachment as the server tells it now or did before: the size was an object, and the beginning had another name. */
type Told = AttachmentInfo & { cols?: number; rows?: number; attachedAtMs?: number };

/** Who is attached, who typed last, and whose size rules; kept true while it is open. `news` counts what may have changed that. */
export function openPresence(console: Console, id: string, button: HTMLElement, news: () => number): void {
  const list = element('ul', { class: 'people' });
  const box = element(
    'div',
    { class: 'menu people-box', popover: 'auto', role: 'dialog', 'aria-label': 'Who is attached', 'data-testid': 'people' },
    list,
  );
  let known = -1;
  const ask = async () => {
    if (news() === known) return;
    known = news();
    try {
      fill(list, ...rows((await console.outlive.process(id).attachments()) as Told[]));
    } catch {
      const count = console.processes.get(id)?.attachments ?? 0;
      fill(list, element('li', {}, count === 1 ? 'One is attached.' : `${count} are attached.`));
    }
  };
  const timer = setInterval(() => void ask(), ASK_EVERY_MS);
  box.addEventListener('toggle', (event) => {
    if ((event as ToggleEvent).newState !== 'closed') return;
    clearInterval(timer);
    box.remove();
  });
  document.body.append(box);
  box.showPopover();
  const at = button.getBoundingClientRect();
  box.style.top = `${at.bottom + 4}px`;
  box.style.left = `${Math.max(8, Math.min(at.right - 300, innerWidth - 308))}px`;
  void ask();
}

function rows(people: Told[]): Node[] {
  const typed = people.filter(({ lastInputAtMs }) => lastInputAtMs).sort((one, other) => other.lastInputAtMs! - one.lastInputAtMs!);
  return people.map((person) => {
    const [cols, rows] = [person.cols ?? person.size?.cols, person.rows ?? person.size?.rows];
    const since = element('span', {});
    showAge(since, person.attachedAtMs ?? person.sinceMs);
    const typedAgo = element('span', {});
    if (person.lastInputAtMs) showAge(typedAgo, person.lastInputAtMs);
    return element(
      'li',
      {},
      element(
        'span',
        { class: 'who' },
        person.peer ?? 'local',
        element('span', { class: `role ${person.role}` }, person.role === 'viewer' ? 'looks on' : 'can type'),
      ),
      element(
        'span',
        { class: 'what' },
        'for ',
        since,
        person.lastInputAtMs ? ', typed ' : '',
        person.lastInputAtMs ? typedAgo : '',
        person.lastInputAtMs ? ' ago' : '',
      ),
      element(
        'span',
        { class: 'marks' },
        person === typed[0] ? element('span', { class: 'mark' }, 'typed last') : null,
        person.sizes
          ? element('span', { class: 'mark' }, cols ? `size rules: ${cols}×${rows}` : 'size rules')
          : cols
            ? element('span', { class: 'mark plain' }, `${cols}×${rows}`)
            : null,
      ),
    );
  });
}
