/** xterm.js 6.0 loses a character that comes in two writes if the first of them ends with the byte 0x80, as in `E2 80 | 9C`. */

/** More than 64 KiB it cuts by itself, anywhere; less can be given up while it waits. */
const MOST_BYTES = 16 * 1024;

/** Gives bytes out in pieces that end with a character; the beginning of one is kept for the next time. */
export class Characters {
  #begun: Uint8Array = new Uint8Array(0);

  *pieces(bytes: Uint8Array): Generator<Uint8Array> {
    let rest = bytes;
    if (this.#begun.length > 0) {
      rest = new Uint8Array(this.#begun.length + bytes.length);
      rest.set(this.#begun);
      rest.set(bytes, this.#begun.length);
    }
    while (rest.length > 0) {
      const piece = rest.subarray(0, MOST_BYTES);
      const whole = piece.length - unfinished(piece);
      if (whole === 0) break;
      yield piece.subarray(0, whole);
      rest = rest.subarray(whole);
    }
    this.#begun = rest.slice();
  }

  /** What comes next has nothing to do with what came before. */
  forget(): void {
    this.#begun = new Uint8Array(0);
  }
}

/** How many bytes at the end begin a character that has more of them. */
function unfinished(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back] as number;
    if ((byte & 0xc0) === 0x80) continue;
    const length = byte >= 0xf8 ? 1 : byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}
