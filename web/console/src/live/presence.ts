import { type AttachmentInfo, OutliveError } from '@outlive/client';
import type { Console } from '../console.js';
import { iconButton } from '../panes/frame.js';
import { element, setText } from '../page/element.js';
import { openPresence } from '../dialogs/presence.js';

/** Typing is not told by events: who typed is asked for when something happens, and not more often than this. */
const ASK_EVERY_MS = 2_000;

export interface Presence {
  element: HTMLElement;
  /** Something was typed or printed. */
  somethingHappened(): void;
  dispose(): void;
}

/** Who else is here: a number that opens the list. Where the server tells nobody, the number alone. */
export function presence(console: Console, id: string): Presence {
  let people: AttachmentInfo[] | undefined;
  let isRefused = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let askedAt = 0;
  const count = element('span', { class: 'count' });
  const button = iconButton('people', 'Who is attached', () => openPresence(console, id, button), { class: 'quiet presence', 'data-testid': 'presence' });
  button.append(count);

  const show = () => {
    const number = people?.length ?? console.processes.get(id)?.attachments ?? 0;
    setText(count, String(number));
    button.hidden = number === 0;
    button.setAttribute('aria-label', number === 1 ? 'One is attached' : `${number} are attached`);
    button.classList.toggle('several', number > 1);
  };
  const ask = async () => {
    timer = undefined;
    askedAt = Date.now();
    try {
      people = await console.outlive.process(id).attachments();
    } catch (error) {
      people = undefined;
      isRefused = error instanceof OutliveError && error.status === 404;
    }
    show();
  };
  const soon = () => {
    if (isRefused || timer !== undefined || !button.isConnected || document.hidden) return;
    timer = setTimeout(() => void ask(), Math.max(200, askedAt + ASK_EVERY_MS - Date.now()));
  };
  const unfollow = console.processes.onChange((changed) => {
    if (changed && changed.id !== id) return;
    people = undefined;
    show();
    soon();
  });
  show();
  return {
    element: button,
    somethingHappened: soon,
    dispose() {
      unfollow();
      clearTimeout(timer);
    },
  };
}
