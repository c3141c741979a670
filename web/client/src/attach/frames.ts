/** The frames of `/connect`, as docs/wire.md has them. */

import type { ProcessInfo, Role } from '../types.js';

export interface Ready {
  type: 'ready';
  offset: number;
  inputOffset: number;
  role: Role;
  flow: 'lossless' | 'live';
  /** Where the log ended when the connection was made; not every server says it. */
  head?: number;
  cols?: number;
  rows?: number;
}

export interface Gap {
  type: 'gap';
  /** Bytes from here … */
  from: number;
  /** … to before here are gone. */
  to: number;
}

export interface Resized {
  type: 'resized';
  cols: number;
  rows: number;
  /** By which rule; it may be the only thing that is new. */
  sizePolicy?: ProcessInfo['sizePolicy'];
}

/** Binary frames follow that together have so many `bytes`. */
export interface RepaintHead {
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

export interface Notice {
  type: 'error';
  code: string;
  message: string;
}

export type Control = Ready | Gap | Resized | RepaintHead | Exit | Notice;

export type StreamName = 'stdout' | 'stderr' | 'terminal';

/** Of a process on pipes the first byte of a frame is its stream. */
export function splitStream(frame: Uint8Array, isTerminal: boolean): { stream: StreamName; bytes: Uint8Array } {
  if (isTerminal) return { stream: 'terminal', bytes: frame };
  return { stream: frame[0] === 2 ? 'stderr' : 'stdout', bytes: frame.subarray(1) };
}
