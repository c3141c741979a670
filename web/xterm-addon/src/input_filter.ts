/**
 * Separates what the user types from what the emulator replies to terminal queries.
 *
 * Programs query terminals, for example for the cursor position or colours. The emulator replies through the same
 * `onData` as the keyboard, and it replies again whenever it parses an old query. Such a reply would be typed into
 * the program that runs now.
 *
 * A chunk of output is muted if replies to it must not be sent: its queries are old, or another client answers them.
 *
 * Emulators reply while they parse, and report a parsed chunk in the same task of the event loop. Keys, mouse and
 * paste arrive in tasks of their own. So while muted chunks are being parsed, data is held until the end of its task (a
 * microtask). If a muted chunk was parsed by then, the data was a reply and is dropped.
 */
export class InputFilter {
  readonly #send: (data: string) => unknown;
  /** Muted chunks that the emulator has not parsed yet. */
  #mutedChunks = 0;
  #held: string[] = [];

  constructor(send: (data: string) => unknown) {
    this.#send = send;
  }

  /** Handles the emulator's `onData`. */
  onData(data: string): void {
    if (this.#mutedChunks === 0) return void this.#send(data);
    this.#held.push(data);
    if (this.#held.length === 1) queueMicrotask(() => this.#release());
  }

  /** Must be called before each write, because the emulator may parse synchronously. */
  beforeWrite(isMuted: boolean): void {
    this.#release();
    if (isMuted) this.#mutedChunks += 1;
  }

  /** Must be called in the task in which the chunk was parsed. */
  afterParse(isMuted: boolean): void {
    if (!isMuted) return this.#release();
    this.#held = [];
    this.#mutedChunks -= 1;
  }

  #release(): void {
    const held = this.#held;
    this.#held = [];
    for (const data of held) this.#send(data);
  }
}
