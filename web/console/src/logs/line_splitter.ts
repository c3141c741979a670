export interface LineChange {
  /** Starts a line; otherwise the last line of this stream is replaced. */
  isNew: boolean;
  /** The complete text of the line so far. */
  text: string;
}

/** Longer lines are broken: every character added to a line redraws all of it. */
const MAX_LINE_CHARS = 16_384;

/**
 * Splits the bytes of one stream into lines; chunks may end anywhere. A lone carriage return restarts the line, as
 * progress bars expect.
 */
export class LineSplitter {
  readonly #decoder = new TextDecoder();
  #line = '';
  #isOpen = false;
  /** The last character was a carriage return, which may belong to a line feed. */
  #isAfterReturn = false;

  /** The changes, in order. */
  add(bytes: Uint8Array): LineChange[] {
    const changes: LineChange[] = [];
    const parts = this.#decoder.decode(bytes, { stream: true }).split(/([\r\n])/);
    for (const part of parts) {
      if (part === '') continue;
      if (part === '\n') {
        if (!this.#isOpen) changes.push({ isNew: true, text: '' });
        this.#end();
      } else if (part === '\r') {
        this.#isAfterReturn = true;
      } else {
        if (this.#isAfterReturn) this.#line = '';
        this.#isAfterReturn = false;
        for (let at = 0; at < part.length; at += MAX_LINE_CHARS) {
          this.#append(part.slice(at, at + MAX_LINE_CHARS), changes);
        }
      }
    }
    return changes;
  }

  #append(text: string, changes: LineChange[]): void {
    if (this.#line.length + text.length > MAX_LINE_CHARS) this.#end();
    this.#line += text;
    const change = { isNew: !this.#isOpen, text: this.#line };
    this.#isOpen = true;
    changes.push(change);
  }

  #end(): void {
    [this.#line, this.#isOpen, this.#isAfterReturn] = ['', false, false];
  }
}
