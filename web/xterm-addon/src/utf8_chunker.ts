/**
 * xterm.js 6.0 loses a character that is split over two writes if the first write ends with the byte 0x80, as in
 * `E2 80 | 9C`.
 */

/** xterm.js splits writes above 64 KiB at arbitrary bytes. Small chunks can also be dropped while they wait. */
const MAX_CHUNK_BYTES = 16 * 1024;

/** Splits bytes into chunks that end at a character boundary. An incomplete character waits for the next call. */
export class Utf8Chunker {
  #incomplete: Uint8Array = new Uint8Array(0);

  *chunks(bytes: Uint8Array): Generator<Uint8Array> {
    let rest = bytes;
    if (this.#incomplete.length > 0) {
      rest = new Uint8Array(this.#incomplete.length + bytes.length);
      rest.set(this.#incomplete);
      rest.set(bytes, this.#incomplete.length);
    }
    while (rest.length > 0) {
      const chunk = rest.subarray(0, MAX_CHUNK_BYTES);
      const completeBytes = chunk.length - incompleteSuffixLength(chunk);
      if (completeBytes === 0) break;
      yield chunk.subarray(0, completeBytes);
      rest = rest.subarray(completeBytes);
    }
    this.#incomplete = rest.slice();
  }

  /** Drops an incomplete character: the next bytes do not continue the previous ones. */
  reset(): void {
    this.#incomplete = new Uint8Array(0);
  }
}

/** Number of bytes at the end that start a character but do not complete it. */
function incompleteSuffixLength(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back] as number;
    if ((byte & 0xc0) === 0x80) continue;
    const length = byte >= 0xf8 ? 1 : byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}
