import type { Console } from '../console.js';
import { frame } from './frame.js';
import type { Pane, PaneSpec } from './pane.js';

export function recordingPane(console: Console, spec: PaneSpec, key: string): Pane {
  const parts = frame(console, spec, key);
  return { element: parts.element, focus() {}, dispose() {} };
}
