/** The public types of the addon. */

import type { Outlive, Role } from '@outlive/client';

/** The subset of a terminal emulator in use; xterm.js, its headless variant and ghostty-web provide it. */
export interface Emulator {
  readonly cols: number;
  readonly rows: number;
  readonly options: { disableStdin?: boolean };
  write(data: string | Uint8Array, callback?: () => void): void;
  resize(cols: number, rows: number): void;
  onData: Subscribe<string>;
  /** Input that is not text, such as legacy mouse reports; ghostty-web does not have it. */
  onBinary?: Subscribe<string>;
  onResize: Subscribe<{ cols: number; rows: number }>;
}

type Subscribe<T> = (listener: (value: T) => void) => Disposable;

export interface Disposable {
  dispose(): void;
}

export interface ConnectOptions {
  /** `screen` (default): start with a repaint of the screen. `now`: only new output. Otherwise: replay bytes. */
  begin?: 'screen' | 'now' | { from: number } | { tail: number };
  /** Lines above the screen that a repaint includes: 0 (default) to 1000. */
  scrollback?: number;
  /** Attach as a viewer: no input, and its size is ignored. */
  readOnly?: boolean;
  /**
   * Whether this emulator answers terminal queries of programs (default: true). Only one writer per terminal should.
   */
  answers?: boolean;
  /** `lossless` (default of writers): the program waits for this screen, within limits. */
  flow?: 'lossless' | 'live';
  /** Bytes that may be in flight or not parsed yet. */
  windowBytes?: number;
  /** Replaces the token. A function is called before each connection; a string is valid for one. */
  ticket?: string | (() => Promise<string>);
}

export interface Options extends ConnectOptions {
  /** Needed to `connect` by id. */
  client?: Outlive;
}

export type State =
  | { name: 'disconnected' }
  | { name: 'connecting' }
  | { name: 'connected'; role: Role }
  /** The addon retries automatically. */
  | { name: 'reconnecting'; why: string }
  | { name: 'exited'; exitCode: number | null; signal?: string; exitReason: string }
  /** The server refused; the addon does not retry. */
  | { name: 'error'; error: Error };

/** Information for the user that does not end the connection. */
export interface Notice {
  code: string;
  message: string;
}
