import type { Terminal } from '@xterm/xterm';
import type { CastEvent } from './asciicast.js';
import type { Stage } from './playback.js';

/** Whoever may make a recording could else take all memory of everybody who plays it. */
const MOST_COLS = 640;
const MOST_ROWS = 240;

/** Shows a recording on an emulator: in order, since a size must not change before what was printed for the old one is parsed. */
export class EmulatorStage implements Stage {
  readonly #terminal: Terminal;
  readonly #resized: () => void;
  #waiting: (CastEvent | { kind: 'begin'; cols: number; rows: number })[] = [];
  #isBusy = false;

  constructor(terminal: Terminal, resized: () => void) {
    this.#terminal = terminal;
    this.#resized = resized;
  }

  begin(cols: number, rows: number): void {
    // What was not shown yet is of a past that nobody sees any more.
    this.#waiting = [{ kind: 'begin', cols, rows }];
    void this.#work();
  }

  show(event: CastEvent): void {
    this.#waiting.push(event);
    void this.#work();
  }

  async #work(): Promise<void> {
    if (this.#isBusy) return;
    this.#isBusy = true;
    for (;;) {
      const output = this.#takeOutput();
      if (output !== '') {
        await this.#write(output);
        continue;
      }
      const event = this.#waiting.shift();
      if (!event) break;
      if (event.kind === 'begin') await this.#write('\x1bc');
      if (event.kind === 'begin' || event.kind === 'resize') {
        this.#terminal.resize(Math.min(event.cols, MOST_COLS), Math.min(event.rows, MOST_ROWS));
        this.#resized();
      }
    }
    this.#isBusy = false;
  }

  /** All that comes before the next thing that is no output, at once. */
  #takeOutput(): string {
    let text = '';
    for (;;) {
      const event = this.#waiting[0];
      if (event?.kind !== 'output') return text;
      text += event.data;
      this.#waiting.shift();
    }
  }

  #write(data: string): Promise<void> {
    return new Promise((resolve) => this.#terminal.write(data, resolve));
  }
}
