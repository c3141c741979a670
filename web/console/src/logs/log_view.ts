import { element, fill } from '../page/element.js';
import { parseAnsi, PLAIN, type Style, type StyledText } from './ansi.js';
import { LineSplitter } from './line_splitter.js';

/** Lines are grouped in blocks, which CSS skips (`content-visibility`) while they are out of view. */
const BLOCK_LINES = 200;
const MAX_BLOCKS = 100;
/** Distance from the bottom that still counts as the end. */
const END_DISTANCE_PX = 24;
/** A scroll event within this time after user input was caused by the user; drags and wheels have momentum. */
const USER_SCROLL_MS = 1_500;

type Stream = 'stdout' | 'stderr';

interface StreamState {
  splitter: LineSplitter;
  /** Style at the start of the last line, and after it. */
  style: Style;
  nextStyle: Style;
  lastLine: HTMLElement | undefined;
}

/** Lines of stdout and stderr in order of arrival. The oldest lines are removed when there are too many. */
export class LogView {
  readonly element = element('div', {
    class: 'log',
    role: 'log',
    tabindex: 0,
    'aria-label': 'Output',
    'data-testid': 'log',
  });
  readonly #streams = new Map<Stream, StreamState>();
  #block: HTMLElement | undefined;
  #isFollowing = true;
  #isScrollScheduled = false;
  #userInputAt = -Infinity;
  onFollowChange: (isFollowing: boolean) => void = () => {};

  constructor() {
    for (const type of ['wheel', 'touchmove', 'pointerdown', 'keydown']) {
      this.element.addEventListener(type, () => (this.#userInputAt = performance.now()), { passive: true });
    }
    this.element.addEventListener('scroll', () => {
      const { scrollTop, scrollHeight, clientHeight } = this.element;
      const isAtEnd = scrollHeight - scrollTop - clientHeight < END_DISTANCE_PX;
      const isByUser = performance.now() - this.#userInputAt < USER_SCROLL_MS;
      // Other scroll events come from blocks whose real height differs from the estimate. They must not stop following.
      if (isAtEnd || isByUser) this.#setFollowing(isAtEnd);
      else this.#scrollToEnd();
    });
    // When the pane shrinks, the end moves out of view.
    new ResizeObserver(() => this.#scrollToEnd()).observe(this.element);
  }

  clear(): void {
    fill(this.element);
    this.#streams.clear();
    this.#block = undefined;
  }

  set isFollowing(isFollowing: boolean) {
    this.#setFollowing(isFollowing);
    if (isFollowing) this.#scrollToEnd();
  }

  add(stream: Stream, bytes: Uint8Array): void {
    let state = this.#streams.get(stream);
    if (!state) {
      state = { splitter: new LineSplitter(), style: PLAIN, nextStyle: PLAIN, lastLine: undefined };
      this.#streams.set(stream, state);
    }
    for (const { isNew, text } of state.splitter.add(bytes)) {
      if (isNew || !state.lastLine) {
        state.style = state.nextStyle;
        state.lastLine = this.#appendLine(stream);
      }
      const { parts, style } = parseAnsi(text, state.style);
      state.nextStyle = style;
      fill(state.lastLine, ...parts.map(styledNode));
    }
    this.#scrollToEnd();
  }

  /** Adds a message of the console between the lines. */
  addNotice(text: string): void {
    this.#appendLine('notice-line').textContent = text;
    this.#scrollToEnd();
  }

  /** The current lines, oldest first. */
  lines(): HTMLElement[] {
    return [...this.element.querySelectorAll<HTMLElement>('.line')];
  }

  #appendLine(kind: string): HTMLElement {
    if (!this.#block || this.#block.childElementCount >= BLOCK_LINES) {
      this.#block = element('div', { class: 'block' });
      this.element.append(this.#block);
      if (this.element.childElementCount > MAX_BLOCKS) this.element.firstElementChild?.remove();
    }
    const line = element('div', { class: `line ${kind}` });
    this.#block.append(line);
    return line;
  }

  #setFollowing(isFollowing: boolean): void {
    if (isFollowing === this.#isFollowing) return;
    this.#isFollowing = isFollowing;
    this.onFollowChange(isFollowing);
  }

  #scrollToEnd(): void {
    if (!this.#isFollowing || this.#isScrollScheduled) return;
    this.#isScrollScheduled = true;
    requestAnimationFrame(() => {
      this.#isScrollScheduled = false;
      if (this.#isFollowing) this.element.scrollTop = this.element.scrollHeight;
    });
  }
}

function styledNode({ text, classes }: StyledText): Node | string {
  return classes.length === 0 ? text : element('span', { class: classes.join(' ') }, text);
}
