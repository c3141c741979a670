import type { Outlive } from '@outlive/client';
import type { Command } from './commands/command.js';
import { listenForPlainKeys, PrefixKey } from './commands/keyboard.js';
import { createCommands } from './commands/registry.js';
import { openNewSession } from './dialogs/new_session.js';
import { openPalette } from './dialogs/palette.js';
import { openStart } from './dialogs/start.js';
import type { Direction } from './layout/tree.js';
import { Workspace } from './layout/workspace.js';
import { copyText } from './page/clipboard.js';
import { element } from './page/element.js';
import type { Notices } from './page/notices.js';
import { LogsPane } from './panes/logs.js';
import type { Pane, PaneSpec } from './panes/pane.js';
import { RecordingPane } from './panes/recording.js';
import { SessionPane } from './panes/session.js';
import { TerminalPane } from './panes/terminal.js';
import { createSidebar } from './sidebar/sidebar.js';
import { welcome } from './sidebar/welcome.js';
import type { Connection } from './state/connection.js';
import { SHELL_COMMAND } from './state/format.js';
import { Processes } from './state/processes.js';
import { Sessions } from './state/sessions.js';

/** The console: server state, sidebar, workspace and commands. */
export class Console {
  readonly element: HTMLElement;
  readonly processes: Processes;
  readonly sessions: Sessions;
  readonly workspace: Workspace;
  readonly commands: Command[];
  readonly #focusList: () => void;
  readonly #filter: HTMLElement;

  constructor(
    readonly outlive: Outlive,
    readonly connection: Connection,
    readonly notices: Notices,
    /** Aborted to remove the console with all its listeners. */
    readonly closed: AbortSignal,
  ) {
    this.processes = new Processes(outlive);
    this.sessions = new Sessions(outlive);
    this.workspace = new Workspace(this, createPane, welcome(this));
    this.commands = createCommands(this);
    const sidebar = createSidebar(this);
    this.#focusList = sidebar.focus;
    this.#filter = sidebar.filter;
    const prefix = new PrefixKey(() => this.commands, closed);
    const children = [sidebar.element, this.workspace.element, prefix.element];
    this.element = element('div', { class: 'console shows-sidebar' }, ...children);
    listenForPlainKeys(this.commands, closed);
    closed.addEventListener('abort', () => this.workspace.dispose());
    this.processes.onChange((changed) => {
      if (changed && !this.processes.get(changed.id)) this.workspace.closeAllOf(changed.id);
    });
  }

  /** On a phone, either the sidebar or the workspace is visible. */
  showSidebar(andFocus = false): void {
    this.element?.classList.add('shows-sidebar');
    this.element?.classList.remove('shows-workspace');
    if (andFocus) this.#focusList();
  }

  focusFilter(): void {
    this.showSidebar();
    this.#filter.focus();
  }

  showWorkspace(): void {
    this.element?.classList.remove('shows-sidebar');
    this.element?.classList.add('shows-workspace');
  }

  openProcess(id: string, where: 'tab' | Direction = 'tab'): void {
    const process = this.processes.get(id);
    const isTerminal = process?.tty ?? true;
    // Nothing can be attached to a process of an earlier boot, but its recording can be played.
    const terminalKind = process?.bootId === undefined ? 'terminal' : 'recording';
    this.workspace.open({ kind: isTerminal ? terminalKind : 'logs', id }, where);
  }

  /** Opens a process that was just started, whose event may arrive after the response. */
  async openStarted(id: string, where: 'tab' | Direction = 'tab'): Promise<void> {
    if (!this.processes.get(id)) this.processes.update(await this.outlive.process(id).info());
    this.openProcess(id, where);
  }

  async openShell(where: 'tab' | Direction = 'tab'): Promise<void> {
    await this.notices.attempt(async () => {
      const { id } = await this.outlive.start({ command: SHELL_COMMAND, shell: true, tty: true, label: 'shell' });
      await this.openStarted(id, where);
    });
  }

  startProcess(where: 'tab' | Direction = 'tab'): void {
    openStart(this, where);
  }

  newSession(): void {
    openNewSession(this);
  }

  /** With a direction, the chosen entry opens in a new pane beside the focused one. */
  openPalette(direction?: Direction): void {
    openPalette(this, direction);
  }

  async copy(text: string): Promise<void> {
    await copyText(text);
    this.notices.show('Copied.');
  }
}

function createPane(console: Console, spec: PaneSpec, key: string): Pane {
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
