import type { Size } from '@outlive/client';
import type { Emulator } from './emulator.js';

/**
 * The emulator has the size that the terminal has. Which one that is the server decides (`sizePolicy`); what happens to the emulator
 * here, such as `fit()`, is a wish.
 */
export class RulingSize {
  readonly #emulator: Emulator;
  readonly #wish: (size: Size) => unknown;
  #ruling: Size | undefined;
  #isObeying = false;
  /** A wish of ours is granted for certain, so the emulator need not wait for it. */
  #weRule = false;
  /** A repaint for the ruling size is not parsed yet; what was wished for meanwhile waits. */
  #isHeld = false;
  #wished: Size | undefined;

  constructor(emulator: Emulator, wish: (size: Size) => unknown) {
    this.#emulator = emulator;
    this.#wish = wish;
  }

  /** Nobody rules: before and after a connection. */
  forget(): void {
    this.#ruling = undefined;
    this.#isHeld = false;
    this.#wished = undefined;
  }

  /** The emulator keeps the ruling size until `release`: what was painted for it must not be parsed at another. */
  hold(): void {
    this.#isHeld = true;
  }

  release(): void {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    const wished = this.#wished;
    this.#wished = undefined;
    if (wished) this.#emulator.resize(wished.cols, wished.rows);
  }

  /** As the server says. */
  rule(size: Size, weRule = this.#weRule): void {
    this.#ruling = size;
    this.#weRule = weRule;
    this.#obey();
  }

  /** From the emulator's `onResize`. */
  changed(size: Size): void {
    if (this.#isObeying) return;
    if (this.#isHeld) {
      this.#wished = size;
      // Before the emulator parses, which it does in a turn of its own.
      return queueMicrotask(() => this.#obey());
    }
    this.#wish(size);
    // Other listeners get this size after us: not before they know it may it change again.
    if (!this.#weRule) queueMicrotask(() => this.#obey());
  }

  #obey(): void {
    const { cols, rows } = within(this.#ruling ?? this.#emulator);
    if (cols === this.#emulator.cols && rows === this.#emulator.rows) return;
    this.#isObeying = true;
    try {
      this.#emulator.resize(cols, rows);
    } finally {
      this.#isObeying = false;
    }
  }
}

/** Whoever may resize a terminal could else take all memory of everybody who looks at it. */
function within({ cols, rows }: Size): Size {
  return { cols: Math.min(cols, 640), rows: Math.min(rows, 240) };
}
