import type { Console } from '../console.js';
import { LogsPane } from './logs.js';
import type { Pane, PaneSpec } from './pane.js';
import { RecordingPane } from './recording.js';
import { SessionPane } from './session.js';
import { TerminalPane } from './terminal.js';

export function makePane(console: Console, spec: PaneSpec, key: string): Pane {
  switch (spec.kind) {
    case 'terminal':
      return new TerminalPane(console, spec, key);
    case 'logs':
      return new LogsPane(console, spec, key);
    case 'recording':
      return new RecordingPane(console, spec, key);
    case 'session':
      return new SessionPane(console, spec, key);
  }
}
