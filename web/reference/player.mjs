// Plays a stream into an emulator: its bytes and its resizes.

export class Player {
  /** `offset`: where the emulator is already, including resizes exactly there. */
  constructor(emulator, stream, offset = 0) {
    this.emulator = emulator;
    this.stream = stream;
    this.offset = offset;
    this.resizes = stream.resizes.filter((resize) => resize.offset > offset);
  }

  /** Plays up to `end`, including a resize exactly there. */
  to(end) {
    const { emulator, stream, resizes } = this;
    while (resizes.length > 0 && resizes[0].offset <= end) {
      const { offset, cols, rows } = resizes.shift();
      this.write(offset);
      emulator.resize(cols, rows);
    }
    this.write(end);
    return emulator;
  }

  write(end) {
    if (end <= this.offset) return;
    this.emulator.write(this.stream.bytes.subarray(this.offset, end));
    this.offset = end;
  }
}
