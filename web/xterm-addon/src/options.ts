import type { AttachOptions, Outlive, Size } from '@outlive/client';

export interface ConnectOptions {
  /** `screen` (default): one repaint of what is on it. `now`: only what comes from here on. Or the bytes themselves. */
  begin?: 'screen' | 'now' | { from: number } | { tail: number };
  /** Lines above the screen that a repaint brings along: 0 (default) to 1000. */
  scrollback?: number;
  /** Only looks: types nothing, and its size does not count. */
  readOnly?: boolean;
  /** Whether this emulator answers what programs ask terminals (default: true). Of several writers at one terminal, one should. */
  answers?: boolean;
  /** `lossless` (default of writers): the program waits for this screen, within bounds. */
  flow?: 'lossless' | 'live';
  /** Bytes that may be under way or not parsed yet. */
  windowBytes?: number;
  /** Instead of a token. A function is asked before each connection; a string is good for one. */
  ticket?: string | (() => Promise<string>);
}

export interface Options extends ConnectOptions {
  /** For `connect` with an id. */
  client?: Outlive;
}

export function attachOptions(options: ConnectOptions, size: Size): AttachOptions {
  const { begin = 'screen', readOnly = false, scrollback, flow, windowBytes, ticket } = options;
  return {
    ...(begin === 'screen' ? { screen: true } : begin === 'now' ? {} : begin),
    ...(scrollback !== undefined && { scrollback }),
    ...(flow !== undefined && { flow }),
    ...(windowBytes !== undefined && { windowBytes }),
    ...(ticket !== undefined && { ticket }),
    ...(readOnly ? { role: 'viewer' as const } : { size }),
    acknowledge: 'explicit',
  };
}
