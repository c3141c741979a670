import type { RepaintHead } from './frames.js';

/** What restores a screen. These bytes are not of the log: no offset counts them. */
export interface Repaint {
  type: 'repaint';
  /** The log goes on here after it. */
  offset: number;
  cols: number;
  rows: number;
  /** Too much of the past is gone to be sure. */
  approximate: boolean;
  bytes: Uint8Array;
}

/** A repaint whose bytes are still coming. */
export class Gathering {
  readonly #head: RepaintHead;
  readonly #bytes: Uint8Array;
  #filled = 0;

  constructor(head: RepaintHead) {
    this.#head = head;
    this.#bytes = new Uint8Array(head.bytes);
  }

  add(bytes: Uint8Array): void {
    this.#bytes.set(bytes, this.#filled);
    this.#filled += bytes.length;
  }

  /** All of it, when nothing is missing. */
  get whole(): Repaint | undefined {
    if (this.#filled < this.#bytes.length) return undefined;
    const { offset, cols, rows, approximate = false } = this.#head;
    return { type: 'repaint', offset, cols, rows, approximate, bytes: this.#bytes };
  }
}
