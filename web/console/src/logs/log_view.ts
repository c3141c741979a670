import { element, fill } from '../page/element.js';
import { type Piece, pieces, PLAIN, type Style } from './escapes.js';
import { Lines } from './lines.js';

/** Lines that are hidden together cost nothing. */
const BLOCK_LINES = 200;
const MOST_BLOCKS = 100;
/** This near is at the end. */
const END_PX = 24;
/** A scroll that comes so soon after somebody did something is theirs; a drag or a swing of the wheel goes on for a while. */
const ACT_LASTS_MS = 1_500;

type Stream = 'stdout' | 'stderr';

interface StreamState {
  lines: Lines;
  /** At the beginning of its last line. */
  style: Style;
  after: Style;
  last: HTMLElement | undefined;
}

/** Lines of two streams in the order in which they came. The oldest go when there are too many. */
export class LogView {
  readonly element = element('div', { class: 'log', role: 'log', tabindex: 0, 'aria-label': 'Output', 'data-testid': 'log' });
  readonly #streams = new Map<Stream, StreamState>();
  #block: HTMLElement | undefined;
  #isFollowing = true;
  #isDue = false;
  #actedAt = -Infinity;
  onFollowChange: (isFollowing: boolean) => void = () => {};

  constructor() {
    for (const act of ['wheel', 'touchmove', 'pointerdown', 'keydown']) {
      this.element.addEventListener(act, () => (this.#actedAt = performance.now()), { passive: true });
    }
    this.element.addEventListener('scroll', () => {
      const { scrollTop, scrollHeight, clientHeight } = this.element;
      const isAtEnd = scrollHeight - scrollTop - clientHeight < END_PX;
      // Blocks that come into view have another height than was guessed: that is no wish to stay behind.
      if (isAtEnd || performance.now() - this.#actedAt < ACT_LASTS_MS) this.#follow(isAtEnd);
      else this.#toEnd();
    });
    // What was the end is not the end any more when there is less room.
    new ResizeObserver(() => this.#toEnd()).observe(this.element);
  }

  clear(): void {
    fill(this.element);
    this.#streams.clear();
    this.#block = undefined;
  }

  set isFollowing(isFollowing: boolean) {
    this.#follow(isFollowing);
    if (isFollowing) this.#toEnd();
  }

  add(stream: Stream, bytes: Uint8Array): void {
    let state = this.#streams.get(stream);
    if (!state) this.#streams.set(stream, (state = { lines: new Lines(), style: PLAIN, after: PLAIN, last: undefined }));
    for (const { isNew, text } of state.lines.add(bytes)) {
      if (isNew || !state.last) {
        state.style = state.after;
        state.last = this.#line(stream);
      }
      const drawn = pieces(text, state.style);
      state.after = drawn.style;
      fill(state.last, ...drawn.pieces.map(span));
    }
    this.#toEnd();
  }

  /** A sentence of ours between the lines. */
  say(text: string): void {
    this.#line('ours').textContent = text;
    this.#toEnd();
  }

  /** Those that there are now, from the oldest on. */
  lines(): HTMLElement[] {
    return [...this.element.querySelectorAll<HTMLElement>('.line')];
  }

  #line(kind: string): HTMLElement {
    if (!this.#block || this.#block.childElementCount >= BLOCK_LINES) {
      this.#block = element('div', { class: 'block' });
      this.element.append(this.#block);
      if (this.element.childElementCount > MOST_BLOCKS) this.element.firstElementChild?.remove();
    }
    const line = element('div', { class: `line ${kind}` });
    this.#block.append(line);
    return line;
  }

  #follow(isFollowing: boolean): void {
    if (isFollowing === this.#isFollowing) return;
    this.#isFollowing = isFollowing;
    this.onFollowChange(isFollowing);
  }

  #toEnd(): void {
    if (!this.#isFollowing || this.#isDue) return;
    this.#isDue = true;
    requestAnimationFrame(() => {
      this.#isDue = false;
      if (this.#isFollowing) this.element.scrollTop = this.element.scrollHeight;
    });
  }
}

function span({ text, classes }: Piece): Node | string {
  return classes.length === 0 ? text : element('span', { class: classes.join(' ') }, text);
}
