import type { Console } from '../console.js';

/** What a pane shows; it is kept across reloads. */
export type PaneSpec =
  | { kind: 'terminal'; id: string }
  | { kind: 'logs'; id: string }
  | { kind: 'recording'; id: string }
  | { kind: 'session'; id: string };

export interface Pane {
  readonly element: HTMLElement;
  focus(): void;
  /** Text that is marked in it. */
  selection?(): string;
  dispose(): void;
}

/** `key` names its place in the workspace. */
export type MakePane = (console: Console, spec: PaneSpec, key: string) => Pane;
