import type { Console } from '../console.js';
import { moodOf, titleOf } from '../live/words.js';
import type { PaneSpec } from './pane.js';

export function paneTitle(console: Console, spec: PaneSpec): string {
  if (spec.kind === 'session') return `session ${spec.id}`;
  const process = console.processes.get(spec.id);
  const title = process ? titleOf(process) : spec.id;
  return spec.kind === 'recording' ? `recording of ${title}` : title;
}

export function paneMood(console: Console, spec: PaneSpec): string {
  if (spec.kind === 'session') return 'session';
  if (spec.kind === 'recording') return 'recording';
  const process = console.processes.get(spec.id);
  return process ? moodOf(process) : 'quiet';
}
