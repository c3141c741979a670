/**
 * Tells what the user types from what the emulator answers.
 *
 * Programs ask terminals things: where the cursor is, what colours there are. The emulator answers through the same `onData` as the
 * keyboard, and it does so again whenever it parses an old question. That answer would be typed into whatever runs now.
 *
 * Emulators answer while they parse, and say that a piece was parsed in the same turn of the event loop; keys, mouse and paste
 * come in turns of their own. So while there are pieces that must not be answered, what comes is held until the end of its turn (a
 * microtask): if a piece was parsed until then, it was an answer.
 */
export class Typing {
  readonly #send: (data: string) => unknown;
  /** Pieces given to the emulator that must not be answered, and are not parsed yet. */
  #mute = 0;
  #held: string[] = [];

  constructor(send: (data: string) => unknown) {
    this.#send = send;
  }

  /** From the emulator's `onData`. */
  came(data: string): void {
    if (this.#mute === 0) return void this.#send(data);
    this.#held.push(data);
    if (this.#held.length === 1) queueMicrotask(() => this.#release());
  }

  /** A piece is about to be given to the emulator, which may parse it at once. */
  begin(isMute: boolean): void {
    this.#release();
    if (isMute) this.#mute += 1;
  }

  /** A piece was parsed, a moment ago in this turn. */
  parsed(isMute: boolean): void {
    if (!isMute) return this.#release();
    this.#held = [];
    this.#mute -= 1;
  }

  #release(): void {
    const held = this.#held;
    this.#held = [];
    for (const data of held) this.#send(data);
  }
}
