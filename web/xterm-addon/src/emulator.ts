/** As much of a terminal emulator as is needed: xterm.js, its headless variant and ghostty-web all have it. */
export interface Emulator {
  readonly cols: number;
  readonly rows: number;
  readonly options: { disableStdin?: boolean };
  write(data: string | Uint8Array, callback?: () => void): void;
  resize(cols: number, rows: number): void;
  onData: Listen<string>;
  /** Bytes that are no text, such as old mouse reports; ghostty-web has none. */
  onBinary?: Listen<string>;
  onResize: Listen<{ cols: number; rows: number }>;
}

type Listen<T> = (listener: (value: T) => void) => { dispose(): void };

/**
 * ghostty-web has parsed what it was given when `write` returns. The callback says that it was drawn: in a page that nobody looks at,
 * that may be never, and the program would wait.
 */
export function parsesAtOnce(emulator: Emulator): boolean {
  return 'wasmTerm' in emulator;
}
