/** Output on its way to the emulator. */

import type { InputFilter } from './input_filter.js';
import type { Emulator } from './types.js';
import { Utf8Chunker } from './utf8_chunker.js';

/** Bytes in the emulator's own queue, from which nothing can be withdrawn. Further chunks wait in this queue. */
const MAX_SUBMITTED_BYTES = 16 * 1024;

interface Chunk {
  bytes: Uint8Array;
  /** Replies of the emulator to this chunk are dropped. */
  isMuted: boolean;
  whenParsed: (() => void) | undefined;
}

/** Writes output to the emulator in chunks and tracks which of them are parsed. */
export class WriteQueue {
  readonly #emulator: Emulator;
  readonly #inputFilter: InputFilter;
  readonly #chunker = new Utf8Chunker();
  #queue: Chunk[] = [];
  /** Handed to the emulator and not parsed yet. */
  #submitted = { chunks: 0, bytes: 0 };
  #drainWaiters: (() => void)[] = [];

  constructor(emulator: Emulator, inputFilter: InputFilter) {
    this.#emulator = emulator;
    this.#inputFilter = inputFilter;
  }

  /** Writes a repaint, which does not continue a character of earlier output. */
  repaint(data: string | Uint8Array, whenParsed?: () => void): void {
    this.#chunker.reset();
    this.write(typeof data === 'string' ? new TextEncoder().encode(data) : data, true, whenParsed);
  }

  /** `isMuted`: terminal queries in the bytes are old, or another client answers them. */
  write(bytes: Uint8Array, isMuted: boolean, whenParsed?: () => void): void {
    const chunks = [...this.#chunker.chunks(bytes)];
    // An incomplete character counts as written although the chunker keeps it, so there may be an empty chunk.
    const last = chunks.pop() ?? new Uint8Array(0);
    for (const chunk of chunks) this.#queue.push({ bytes: chunk, isMuted, whenParsed: undefined });
    this.#queue.push({ bytes: last, isMuted, whenParsed });
    this.#submit();
  }

  /** Resolves when everything written is parsed. The size may only change then: output is formatted for its size. */
  async drained(): Promise<void> {
    if (this.#isBusy) await new Promise<void>((resolve) => this.#drainWaiters.push(resolve));
  }

  /** Drops waiting chunks before a repaint replaces them, and resolves when the emulator has parsed the others. */
  discard(): Promise<void> {
    this.#queue = [];
    return this.drained();
  }

  get #isBusy(): boolean {
    return this.#queue.length > 0 || this.#submitted.chunks > 0;
  }

  #submit(): void {
    while (this.#submitted.bytes < MAX_SUBMITTED_BYTES) {
      const chunk = this.#queue.shift();
      if (!chunk) return;
      this.#inputFilter.beforeWrite(chunk.isMuted);
      this.#submitted.chunks += 1;
      this.#submitted.bytes += chunk.bytes.length;
      if (parsesSynchronously(this.#emulator)) {
        this.#emulator.write(chunk.bytes);
        this.#onParsed(chunk);
      } else {
        this.#emulator.write(chunk.bytes, () => {
          this.#onParsed(chunk);
          this.#submit();
        });
      }
    }
  }

  #onParsed({ bytes, isMuted, whenParsed }: Chunk): void {
    this.#inputFilter.afterParse(isMuted);
    this.#submitted.chunks -= 1;
    this.#submitted.bytes -= bytes.length;
    whenParsed?.();
    if (this.#isBusy) return;
    const waiters = this.#drainWaiters;
    this.#drainWaiters = [];
    for (const resolve of waiters) resolve();
  }
}

/**
 * ghostty-web has parsed the data when `write` returns. Its callback only reports that the data was drawn, which never
 * happens in a hidden page; the program would wait forever.
 */
function parsesSynchronously(emulator: Emulator): boolean {
  return 'wasmTerm' in emulator;
}
