/** The frames of `/connect`, specified in docs/reference/http-sockets.md. */

import type { ProcessInfo, Role } from '../types.js';

export interface Ready {
  type: 'ready';
  offset: number;
  inputOffset: number;
  role: Role;
  flow: 'lossless' | 'live';
  /** End of the log when the connection was made; older servers do not send it. */
  head?: number;
  cols?: number;
  rows?: number;
}

/** Bytes from `from` up to but not including `to` are gone. */
export interface Gap {
  type: 'gap';
  from: number;
  to: number;
}

export interface Resized {
  type: 'resized';
  cols: number;
  rows: number;
  /** Absent from older servers. If only the policy has changed, the size is the same as before. */
  sizePolicy?: ProcessInfo['sizePolicy'];
}

/** Announces a repaint of `bytes` bytes, which follow in binary frames. */
export interface RepaintHeader {
  type: 'repaint';
  offset: number;
  cols: number;
  rows: number;
  bytes: number;
  approximate?: boolean;
}

export interface Exit {
  type: 'exit';
  exitCode: number | null;
  signal?: string;
  exitReason: string;
  offset: number;
}

export interface ErrorFrame {
  type: 'error';
  code: string;
  message: string;
}

export type ControlFrame = Ready | Gap | Resized | RepaintHeader | Exit | ErrorFrame;

export type StreamName = 'stdout' | 'stderr' | 'terminal';

/** For a process on pipes, the first byte of a binary frame names its stream. */
export function splitStream(frame: Uint8Array, isTerminal: boolean): { stream: StreamName; bytes: Uint8Array } {
  if (isTerminal) return { stream: 'terminal', bytes: frame };
  return { stream: frame[0] === 2 ? 'stderr' : 'stdout', bytes: frame.subarray(1) };
}

/** Bytes that restore a screen. They are not part of the log and count in no offset. */
export interface Repaint {
  type: 'repaint';
  /** Output continues at this offset of the log. */
  offset: number;
  cols: number;
  rows: number;
  /** Too much old output is gone to restore the screen exactly. */
  approximate: boolean;
  bytes: Uint8Array;
}

/** Collects the binary frames of one repaint. */
export class RepaintAssembler {
  readonly #header: RepaintHeader;
  readonly #bytes: Uint8Array;
  #filled = 0;

  constructor(header: RepaintHeader) {
    this.#header = header;
    this.#bytes = new Uint8Array(header.bytes);
  }

  add(bytes: Uint8Array): void {
    this.#bytes.set(bytes, this.#filled);
    this.#filled += bytes.length;
  }

  /** The repaint, once all its bytes have arrived. */
  get complete(): Repaint | undefined {
    if (this.#filled < this.#bytes.length) return undefined;
    const { offset, cols, rows, approximate = false } = this.#header;
    return { type: 'repaint', offset, cols, rows, approximate, bytes: this.#bytes };
  }
}
