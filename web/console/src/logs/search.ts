import type { LogView } from './log_view.js';

/** Limits the cost of a search with very many matches. */
const MAX_MATCHES = 2_000;
/** Names of CSS highlights in the style sheet. They are global: the page highlights one search at a time. */
const MATCH_HIGHLIGHT = 'log-match';
const CURRENT_HIGHLIGHT = 'log-current-match';

/** Finds text in the lines and marks it with CSS highlights, if the browser has them, without changing the lines. */
export class Search {
  readonly #view: LogView;
  #matches: Range[] = [];
  #current = -1;

  constructor(view: LogView) {
    this.#view = view;
  }

  /** `2 of 17`; empty without matches. */
  get positionLabel(): string {
    if (this.#matches.length === 0) return '';
    const count = this.#matches.length === MAX_MATCHES ? `${MAX_MATCHES} or more` : this.#matches.length;
    return `${this.#current + 1} of ${count}`;
  }

  /** Starts at the last match: recent output is usually what the user looks for. */
  find(text: string): void {
    const hadMatches = this.#matches.length > 0;
    this.#matches = text === '' ? [] : findRanges(this.#view, text.toLowerCase());
    this.#current = this.#matches.length - 1;
    if (hadMatches || this.#matches.length > 0) this.#highlight();
    this.#scrollToCurrent();
  }

  step(by: number): void {
    if (this.#matches.length === 0) return;
    this.#current = (this.#current + by + this.#matches.length) % this.#matches.length;
    this.#highlight();
    this.#scrollToCurrent();
  }

  dispose(): void {
    CSS.highlights?.delete(MATCH_HIGHLIGHT);
    CSS.highlights?.delete(CURRENT_HIGHLIGHT);
  }

  #scrollToCurrent(): void {
    const line = this.#matches[this.#current]?.startContainer.parentElement?.closest('.line');
    if (!line) return;
    this.#view.isFollowing = false;
    line.scrollIntoView({ block: 'center' });
  }

  #highlight(): void {
    if (!('highlights' in CSS)) return;
    CSS.highlights.set(MATCH_HIGHLIGHT, new Highlight(...this.#matches));
    const current = this.#matches[this.#current];
    CSS.highlights.set(CURRENT_HIGHLIGHT, new Highlight(...(current ? [current] : [])));
  }
}

/** Searches whole lines, so that a match may span differently coloured parts. */
function findRanges(view: LogView, query: string): Range[] {
  const ranges: Range[] = [];
  for (const line of view.lines().reverse()) {
    const text = line.textContent!.toLowerCase();
    for (let at = text.indexOf(query); at >= 0; at = text.indexOf(query, at + query.length)) {
      const range = document.createRange();
      range.setStart(...textPosition(line, at));
      range.setEnd(...textPosition(line, at + query.length));
      ranges.push(range);
      if (ranges.length === MAX_MATCHES) return ranges.reverse();
    }
  }
  return ranges.reverse();
}

/** The text node at an offset in a line's text, and the offset in that node. */
function textPosition(line: HTMLElement, offset: number): [Node, number] {
  const walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
  let remaining = offset;
  let last: Node = line;
  while (walker.nextNode()) {
    last = walker.currentNode;
    const { length } = last.textContent!;
    if (remaining <= length) return [last, remaining];
    remaining -= length;
  }
  return [last, 0];
}
