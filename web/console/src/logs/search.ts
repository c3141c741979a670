import type { LogView } from './log_view.js';

/** More is not looked at twice by anybody, and costs. */
const MOST_FOUND = 2_000;
/** Names in the style sheet; one search at a time is marked in the whole page. */
const FOUND = 'log-found';
const CHOSEN = 'log-chosen';

/** Finds text in the lines and marks it without touching them (CSS highlights, where there are any). */
export class Search {
  readonly #view: LogView;
  #found: Range[] = [];
  #at = -1;

  constructor(view: LogView) {
    this.#view = view;
  }

  /** `2 of 17`, or nothing. */
  get words(): string {
    if (this.#found.length === 0) return '';
    const count = this.#found.length === MOST_FOUND ? `${MOST_FOUND} or more` : this.#found.length;
    return `${this.#at + 1} of ${count}`;
  }

  /** Begins at the end: what came last is looked for most. */
  look(text: string): void {
    const before = this.#found.length;
    this.#found = text === '' ? [] : rangesOf(this.#view, text.toLowerCase());
    this.#at = this.#found.length - 1;
    if (before > 0 || this.#found.length > 0) this.#mark();
    this.#show();
  }

  step(by: number): void {
    if (this.#found.length === 0) return;
    this.#at = (this.#at + by + this.#found.length) % this.#found.length;
    this.#mark();
    this.#show();
  }

  dispose(): void {
    CSS.highlights?.delete(FOUND);
    CSS.highlights?.delete(CHOSEN);
  }

  #show(): void {
    const line = this.#found[this.#at]?.startContainer.parentElement?.closest('.line');
    if (!line) return;
    this.#view.isFollowing = false;
    line.scrollIntoView({ block: 'center' });
  }

  #mark(): void {
    if (!('highlights' in CSS)) return;
    CSS.highlights.set(FOUND, new Highlight(...this.#found));
    const chosen = this.#found[this.#at];
    CSS.highlights.set(CHOSEN, new Highlight(...(chosen ? [chosen] : [])));
  }
}

/** In whole lines, also across the colours in them. */
function rangesOf(view: LogView, wanted: string): Range[] {
  const found: Range[] = [];
  for (const line of view.lines().reverse()) {
    const text = line.textContent!.toLowerCase();
    for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) {
      const range = document.createRange();
      range.setStart(...place(line, at));
      range.setEnd(...place(line, at + wanted.length));
      found.push(range);
      if (found.length === MOST_FOUND) return found.reverse();
    }
  }
  return found.reverse();
}

function place(line: HTMLElement, offset: number): [Node, number] {
  const walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
  let left = offset;
  let last: Node = line;
  while (walker.nextNode()) {
    last = walker.currentNode;
    const { length } = last.textContent!;
    if (left <= length) return [last, left];
    left -= length;
  }
  return [last, 0];
}
