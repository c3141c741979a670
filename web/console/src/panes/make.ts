import type { Console } from '../console.js';
import { logsPane } from './logs.js';
import type { Pane, PaneSpec } from './pane.js';
import { recordingPane } from './recording.js';
import { sessionPane } from './session.js';
import { terminalPane } from './terminal.js';

const MAKERS = { terminal: terminalPane, logs: logsPane, recording: recordingPane, session: sessionPane };

export function makePane(console: Console, spec: PaneSpec, key: string): Pane {
  return MAKERS[spec.kind](console, spec, key);
}
