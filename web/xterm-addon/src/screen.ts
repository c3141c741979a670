import { Characters } from './characters.js';
import { type Emulator, parsesAtOnce } from './emulator.js';
import type { Typing } from './typing.js';

/** So much is in the emulator's own queue, from which nothing can be taken back; the rest waits in ours. */
const MOST_GIVEN_BYTES = 16 * 1024;

interface Piece {
  bytes: Uint8Array;
  isMute: boolean;
  whenParsed: (() => void) | undefined;
}

/** Gives pieces to the emulator, and knows which are parsed. */
export class Screen {
  readonly #emulator: Emulator;
  readonly #typing: Typing;
  readonly #characters = new Characters();
  #queue: Piece[] = [];
  /** What the emulator has and has not parsed yet. */
  #given = { pieces: 0, bytes: 0 };
  #waiting: (() => void)[] = [];

  constructor(emulator: Emulator, typing: Typing) {
    this.#emulator = emulator;
    this.#typing = typing;
  }

  /** Everything anew: what was begun before is not ended by it. */
  repaint(data: string | Uint8Array, whenParsed?: () => void): void {
    this.#characters.forget();
    this.write(typeof data === 'string' ? new TextEncoder().encode(data) : data, true, whenParsed);
  }

  /** `isMute`: questions to the terminal in it are old, or somebody else's to answer. */
  write(bytes: Uint8Array, isMute: boolean, whenParsed?: () => void): void {
    const pieces = [...this.#characters.pieces(bytes)];
    // Half a character is taken, though nothing of it is shown.
    const last = pieces.pop() ?? new Uint8Array(0);
    for (const piece of pieces) this.#queue.push({ bytes: piece, isMute, whenParsed: undefined });
    this.#queue.push({ bytes: last, isMute, whenParsed });
    this.#give();
  }

  /** When everything that was written is parsed: a size must not change in the middle of what was printed for another. */
  async settled(): Promise<void> {
    if (this.#isBusy) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  /** Gives up what waits, because something comes that stands for all of it. What the emulator has already is parsed first. */
  abandon(): Promise<void> {
    this.#queue = [];
    return this.settled();
  }

  get #isBusy(): boolean {
    return this.#queue.length > 0 || this.#given.pieces > 0;
  }

  #give(): void {
    while (this.#given.bytes < MOST_GIVEN_BYTES) {
      const piece = this.#queue.shift();
      if (!piece) return;
      this.#typing.begin(piece.isMute);
      this.#given.pieces += 1;
      this.#given.bytes += piece.bytes.length;
      if (parsesAtOnce(this.#emulator)) {
        this.#emulator.write(piece.bytes);
        this.#parsed(piece);
      } else {
        this.#emulator.write(piece.bytes, () => {
          this.#parsed(piece);
          this.#give();
        });
      }
    }
  }

  #parsed({ bytes, isMute, whenParsed }: Piece): void {
    this.#typing.parsed(isMute);
    this.#given.pieces -= 1;
    this.#given.bytes -= bytes.length;
    whenParsed?.();
    if (this.#isBusy) return;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const go of waiting) go();
  }
}
