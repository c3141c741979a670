import type { Console } from '../console.js';
import { openPresence } from '../dialogs/presence.js';
import { element, setText } from '../page/element.js';
import { iconButton } from '../panes/frame.js';

export interface Presence {
  element: HTMLElement;
  /** Something was typed or printed: who typed last may have changed, which no event tells. */
  somethingHappened(): void;
  dispose(): void;
}

/** How many are attached, as events tell; a click shows who. */
export function presence(console: Console, id: string): Presence {
  let news = 0;
  const count = element('span', { class: 'count' });
  const button = iconButton('people', 'Who is attached', () => openPresence(console, id, button, () => news), {
    class: 'quiet presence',
    'data-testid': 'presence',
  });
  button.append(count);
  const show = () => {
    const number = console.processes.get(id)?.attachments ?? 0;
    setText(count, String(number));
    button.hidden = number === 0;
    button.setAttribute('aria-label', number === 1 ? 'One is attached' : `${number} are attached`);
    button.classList.toggle('several', number > 1);
  };
  const dispose = console.processes.onChange((changed) => {
    if (changed && changed.id !== id) return;
    news += 1;
    show();
  });
  show();
  return { element: button, somethingHappened: () => (news += 1), dispose };
}
