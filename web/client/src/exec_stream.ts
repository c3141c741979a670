import { OutliveError } from './problem.js';
import type { ServerEvent } from './sse.js';
import type { ExecInfo } from './types.js';

/** What a command of a session does, as it happens. */
export type ExecItem =
  | { type: 'start'; execId: string }
  /** `offset` is that of its first byte in what the command prints. */
  | { type: 'stdout' | 'stderr'; offset: number; bytes: Uint8Array }
  | { type: 'gap'; from: number; to: number }
  | { type: 'end'; exec: ExecInfo };

/** An error that the stream ends with is thrown. */
export function execItem({ event, data }: ServerEvent): ExecItem | undefined {
  const told = JSON.parse(data);
  switch (event) {
    case 'start':
      return { type: 'start', execId: told.execId };
    case 'stdout':
    case 'stderr':
      return { type: event, offset: told.offset, bytes: told.encoding === 'base64' ? fromBase64(told.data) : new TextEncoder().encode(told.data) };
    case 'gap':
      return { type: 'gap', from: told.from, to: told.to };
    case 'end':
      return { type: 'end', exec: told };
    case 'error':
      throw new OutliveError(told.code ?? 'failed', told.detail ?? told.message ?? 'the command failed', told.status ?? 0, told.details);
    default:
      return undefined;
  }
}

function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}
