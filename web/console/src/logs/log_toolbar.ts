import { element, setText } from '../page/element.js';
import type { LogView } from './log_view.js';
import { Search } from './search.js';

/** The toolbar above a log: search, load from the start, follow. */
export class LogToolbar {
  readonly element: HTMLElement;
  readonly #search: Search;
  readonly #input = element('input', {
    type: 'search',
    placeholder: 'Search',
    'aria-label': 'Search output',
    'data-testid': 'log-search',
    spellcheck: 'false',
  });
  readonly #status = element('span', { class: 'hint', role: 'status' });
  readonly #loadAll: HTMLElement;

  constructor(view: LogView, loadFromStart: () => void) {
    this.#search = new Search(view);
    this.#loadAll = element(
      'button',
      { type: 'button', class: 'quiet', hidden: true, onclick: loadFromStart },
      'Load from start',
    );
    const follow = element(
      'button',
      { type: 'button', class: 'quiet toggle', 'aria-pressed': 'true', 'data-testid': 'follow' },
      'Follow',
    );
    follow.addEventListener('click', () => (view.isFollowing = follow.getAttribute('aria-pressed') !== 'true'));
    view.onFollowChange = (isFollowing) => follow.setAttribute('aria-pressed', String(isFollowing));
    this.#input.addEventListener('input', () => this.#update(() => this.#search.find(this.#input.value)));
    this.#input.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') this.#update(() => this.#search.step(event.shiftKey ? 1 : -1));
      if (event.key === 'Escape') view.element.focus();
    });
    view.element.addEventListener('keydown', (event) => {
      if (event.key !== '/' && !(event.key === 'f' && event.ctrlKey)) return;
      event.preventDefault();
      event.stopPropagation();
      this.#input.focus();
    });
    const spacer = element('span', { class: 'gap' });
    this.element = element(
      'div',
      { class: 'log-tools', role: 'toolbar', 'aria-label': 'Output' },
      this.#input,
      this.#status,
      spacer,
      this.#loadAll,
      follow,
    );
  }

  /** Whether the log has output before the part that is shown. */
  set hasEarlierOutput(hasEarlierOutput: boolean) {
    this.#loadAll.hidden = !hasEarlierOutput;
  }

  dispose(): void {
    this.#search.dispose();
  }

  #update(action: () => void): void {
    action();
    setText(this.#status, this.#input.value === '' ? '' : this.#search.positionLabel || 'no matches');
  }
}
