import type { Terminal } from '@xterm/xterm';
import type { CastEvent } from './asciicast.js';
import type { PlaybackSink } from './playback.js';

/** Limits the memory that a recording of another user can make this page allocate. */
const MAX_COLS = 640;
const MAX_ROWS = 240;

/** Plays a recording on an emulator, in order: output must be parsed at the size it was printed for. */
export class EmulatorSink implements PlaybackSink {
  readonly #terminal: Terminal;
  readonly #onResize: () => void;
  #queue: (CastEvent | { kind: 'reset'; cols: number; rows: number })[] = [];
  #isBusy = false;

  constructor(terminal: Terminal, onResize: () => void) {
    this.#terminal = terminal;
    this.#onResize = onResize;
  }

  reset(cols: number, rows: number): void {
    // The reset replaces everything that waits.
    this.#queue = [{ kind: 'reset', cols, rows }];
    void this.#drain();
  }

  apply(event: CastEvent): void {
    this.#queue.push(event);
    void this.#drain();
  }

  async #drain(): Promise<void> {
    if (this.#isBusy) return;
    this.#isBusy = true;
    for (;;) {
      const output = this.#shiftOutput();
      if (output !== '') {
        await this.#write(output);
        continue;
      }
      const event = this.#queue.shift();
      if (!event) break;
      if (event.kind === 'reset') await this.#write('\x1bc');
      if (event.kind === 'reset' || event.kind === 'resize') {
        this.#terminal.resize(Math.min(event.cols, MAX_COLS), Math.min(event.rows, MAX_ROWS));
        this.#onResize();
      }
    }
    this.#isBusy = false;
  }

  /** Removes the output at the front of the queue and returns it as one string. */
  #shiftOutput(): string {
    let text = '';
    for (;;) {
      const event = this.#queue[0];
      if (event?.kind !== 'output') return text;
      text += event.data;
      this.#queue.shift();
    }
  }

  #write(data: string): Promise<void> {
    return new Promise((resolve) => this.#terminal.write(data, resolve));
  }
}
