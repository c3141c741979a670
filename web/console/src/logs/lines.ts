export interface LineChange {
  /** Begins a line; otherwise the last one of this stream goes on. */
  isNew: boolean;
  /** All of the line so far. */
  text: string;
}

/** A line that never ends would make every further letter slower. */
const LONGEST_LINE = 16_384;

/** Bytes of one stream as lines, in pieces that may end anywhere. A lone carriage return begins the same line anew, as progress bars want it. */
export class Lines {
  readonly #decoder = new TextDecoder();
  #line = '';
  #isOpen = false;
  /** A carriage return was last: what comes next decides whether it belongs to a line feed. */
  #isReturned = false;

  /** What changes, in order. */
  add(bytes: Uint8Array): LineChange[] {
    const changes: LineChange[] = [];
    const parts = this.#decoder.decode(bytes, { stream: true }).split(/([\r\n])/);
    for (const part of parts) {
      if (part === '') continue;
      if (part === '\n') {
        if (!this.#isOpen) changes.push({ isNew: true, text: '' });
        this.#end();
      } else if (part === '\r') {
        this.#isReturned = true;
      } else {
        if (this.#isReturned) this.#line = '';
        this.#isReturned = false;
        for (let at = 0; at < part.length; at += LONGEST_LINE) this.#append(part.slice(at, at + LONGEST_LINE), changes);
      }
    }
    return changes;
  }

  #append(text: string, changes: LineChange[]): void {
    if (this.#line.length + text.length > LONGEST_LINE) this.#end();
    this.#line += text;
    const change = { isNew: !this.#isOpen, text: this.#line };
    this.#isOpen = true;
    changes.push(change);
  }

  #end(): void {
    [this.#line, this.#isOpen, this.#isReturned] = ['', false, false];
  }
}
