import type { Console } from '../console.js';
import { logsPane } from './logs.js';
import type { Pane, PaneSpec } from './pane.js';
import { RecordingPane } from './recording.js';
import { sessionPane } from './session.js';
import { terminalPane } from './terminal.js';

export function makePane(console: Console, spec: PaneSpec, key: string): Pane {
  switch (spec.kind) {
    case 'terminal':
      return terminalPane(console, spec, key);
    case 'logs':
      return logsPane(console, spec, key);
    case 'recording':
      return new RecordingPane(console, spec, key);
    case 'session':
      return sessionPane(console, spec, key);
  }
}
