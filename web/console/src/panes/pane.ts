import type { Console } from '../console.js';

/** What a pane shows; part of the saved layout. */
export type PaneSpec =
  | { kind: 'terminal'; id: string }
  | { kind: 'logs'; id: string }
  | { kind: 'recording'; id: string }
  | { kind: 'session'; id: string };

export interface Pane {
  readonly element: HTMLElement;
  focus(): void;
  /** The selected text. */
  selection?(): string;
  dispose(): void;
}

/** `key` identifies the pane in the workspace. */
export type CreatePane = (console: Console, spec: PaneSpec, key: string) => Pane;
