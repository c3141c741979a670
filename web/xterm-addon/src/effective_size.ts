import type { Size } from '@outlive/client';
import type { Emulator } from './types.js';

/** Limits the memory that a client with write access can make other viewers' emulators allocate. */
const MAX_COLS = 640;
const MAX_ROWS = 240;

/**
 * Keeps the emulator at the terminal's effective size. The server decides that size (`sizePolicy`); a resize of the
 * emulator, such as by `fit()`, is only a request.
 */
export class EffectiveSize {
  readonly #emulator: Emulator;
  readonly #request: (size: Size) => unknown;
  #effective: Size | undefined;
  #isApplying = false;
  /** The server accepts every size this client requests, so the emulator need not wait for the response. */
  #isOurs = false;
  /** A repaint for the effective size is not parsed yet; resizes wait. */
  #isLocked = false;
  #deferred: Size | undefined;

  constructor(emulator: Emulator, request: (size: Size) => unknown) {
    this.#emulator = emulator;
    this.#request = request;
  }

  /** Without a connection there is no effective size. */
  clear(): void {
    this.#effective = undefined;
    this.#isLocked = false;
    this.#deferred = undefined;
  }

  /** Fixes the size until `unlock`: a repaint must be parsed at the size it was made for. */
  lock(): void {
    this.#isLocked = true;
  }

  unlock(): void {
    if (!this.#isLocked) return;
    this.#isLocked = false;
    const deferred = this.#deferred;
    this.#deferred = undefined;
    if (deferred) this.#emulator.resize(deferred.cols, deferred.rows);
  }

  /** Applies a size from the server. */
  set(size: Size, isOurs = this.#isOurs): void {
    this.#effective = size;
    this.#isOurs = isOurs;
    this.#apply();
  }

  /** Handles the emulator's `onResize`. */
  onEmulatorResize(size: Size): void {
    if (this.#isApplying) return;
    if (this.#isLocked) {
      this.#deferred = size;
      // A microtask runs before the emulator parses, which it does in a task of its own.
      return queueMicrotask(() => this.#apply());
    }
    this.#request(size);
    // Later listeners of the same event must see this size before it changes back.
    if (!this.#isOurs) queueMicrotask(() => this.#apply());
  }

  #apply(): void {
    const { cols, rows } = clamp(this.#effective ?? this.#emulator);
    if (cols === this.#emulator.cols && rows === this.#emulator.rows) return;
    this.#isApplying = true;
    try {
      this.#emulator.resize(cols, rows);
    } finally {
      this.#isApplying = false;
    }
  }
}

function clamp({ cols, rows }: Size): Size {
  return { cols: Math.min(cols, MAX_COLS), rows: Math.min(rows, MAX_ROWS) };
}
