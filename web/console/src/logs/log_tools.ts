import { element, setText } from '../page/element.js';
import type { LogView } from './log_view.js';
import { Search } from './search.js';

/** Above a log: search, follow, and back to its beginning. */
export class LogTools {
  readonly element: HTMLElement;
  readonly #search: Search;
  readonly #wanted = element('input', {
    type: 'search',
    placeholder: 'Search',
    'aria-label': 'Search in the output',
    'data-testid': 'log-search',
    spellcheck: 'false',
  });
  readonly #found = element('span', { class: 'hint', role: 'status' });
  readonly #earlier: HTMLElement;

  constructor(view: LogView, fromBeginning: () => void) {
    this.#search = new Search(view);
    this.#earlier = element('button', { type: 'button', class: 'quiet', hidden: true, onclick: fromBeginning }, 'From the beginning');
    const follow = element('button', { type: 'button', class: 'quiet toggle', 'aria-pressed': 'true', 'data-testid': 'follow' }, 'Follow');
    follow.addEventListener('click', () => (view.isFollowing = follow.getAttribute('aria-pressed') !== 'true'));
    view.onFollowChange = (isFollowing) => follow.setAttribute('aria-pressed', String(isFollowing));
    this.#wanted.addEventListener('input', () => this.#look(() => this.#search.look(this.#wanted.value)));
    this.#wanted.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') this.#look(() => this.#search.step(event.shiftKey ? 1 : -1));
      if (event.key === 'Escape') view.element.focus();
    });
    view.element.addEventListener('keydown', (event) => {
      if (event.key !== '/' && !(event.key === 'f' && event.ctrlKey)) return;
      event.preventDefault();
      event.stopPropagation();
      this.#wanted.focus();
    });
    const gap = element('span', { class: 'gap' });
    this.element = element(
      'div',
      { class: 'log-tools', role: 'toolbar', 'aria-label': 'Output' },
      this.#wanted,
      this.#found,
      gap,
      this.#earlier,
      follow,
    );
  }

  set hasEarlier(hasEarlier: boolean) {
    this.#earlier.hidden = !hasEarlier;
  }

  dispose(): void {
    this.#search.dispose();
  }

  #look(act: () => void): void {
    act();
    setText(this.#found, this.#wanted.value === '' ? '' : this.#search.words || 'nothing');
  }
}
