import { Characters } from './characters.js';
import { type Emulator, parsesAtOnce } from './emulator.js';
import type { Typing } from './typing.js';

/** Gives pieces to the emulator, and knows which are parsed. */
export class Screen {
  readonly #emulator: Emulator;
  readonly #typing: Typing;
  readonly #characters = new Characters();
  #unparsed = 0;
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
    for (const piece of pieces) this.#write(piece, isMute);
    this.#write(last, isMute, whenParsed);
  }

  #write(data: Uint8Array, isMute: boolean, whenParsed?: () => void): void {
    this.#typing.begin(isMute);
    this.#unparsed += 1;
    const parsed = () => {
      this.#typing.parsed(isMute);
      this.#unparsed -= 1;
      whenParsed?.();
      if (this.#unparsed > 0) return;
      const waiting = this.#waiting;
      this.#waiting = [];
      for (const go of waiting) go();
    };
    if (parsesAtOnce(this.#emulator)) {
      this.#emulator.write(data);
      parsed();
    } else {
      this.#emulator.write(data, parsed);
    }
  }

  /** When everything that was given is parsed: a size must not change in the middle of what was printed for another. */
  async settled(): Promise<void> {
    if (this.#unparsed > 0) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }
}
