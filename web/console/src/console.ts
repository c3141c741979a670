import type { Outlive } from '@outlive/client';
import { allCommands } from './commands/all.js';
import type { Command } from './commands/command.js';
import { listenForPlainKeys } from './commands/plain_keys.js';
import { Prefix } from './commands/prefix.js';
import { openNewSession } from './dialogs/new_session.js';
import { openPalette } from './dialogs/palette.js';
import { openStart } from './dialogs/start.js';
import type { Direction } from './layout/tree.js';
import { Workspace } from './layout/workspace.js';
import { sidebar } from './list/sidebar.js';
import { welcome } from './list/welcome.js';
import type { Connection } from './live/connection.js';
import { SHELL_LINE } from './live/own_shell.js';
import { Processes } from './live/processes.js';
import { Sessions } from './live/sessions.js';
import { copyText } from './page/copy.js';
import { element } from './page/element.js';
import type { Notices } from './page/notices.js';
import { makePane } from './panes/make.js';

/** Everything together: what is known, what is shown, and what can be done. */
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
    /** Ends it, with everything that it listens to. */
    readonly over: AbortSignal,
  ) {
    this.processes = new Processes(outlive);
    this.sessions = new Sessions(outlive);
    this.workspace = new Workspace(this, makePane, welcome(this));
    this.commands = allCommands(this);
    const side = sidebar(this);
    this.#focusList = side.focus;
    this.#filter = side.filter;
    const prefix = new Prefix(() => this.commands, over);
    this.element = element('div', { class: 'console shows-list' }, side.element, this.workspace.element, prefix.element);
    listenForPlainKeys(this.commands, over);
    over.addEventListener('abort', () => this.workspace.dispose());
    this.processes.onChange((changed) => {
      if (changed && !this.processes.get(changed.id)) this.workspace.closeAllOf(changed.id);
    });
    // Whoever comes back to this window may have used sessions elsewhere.
    document.addEventListener(
      'visibilitychange',
      () => {
        if (!document.hidden) void this.sessions.look().catch(() => {});
      },
      { signal: over },
    );
  }

  /** On a phone either the list or the work is shown. */
  showList(andFocus = false): void {
    this.element?.classList.add('shows-list');
    this.element?.classList.remove('shows-work');
    if (andFocus) this.#focusList();
  }

  filterList(): void {
    this.showList();
    this.#filter.focus();
  }

  showWork(): void {
    this.element?.classList.remove('shows-list');
    this.element?.classList.add('shows-work');
  }

  openProcess(id: string, where: 'tab' | Direction = 'tab'): void {
    const isTerminal = this.processes.get(id)?.tty ?? true;
    this.workspace.open({ kind: isTerminal ? 'terminal' : 'logs', id }, where);
  }

  /** The event of a start may come after its answer. */
  async openStarted(id: string, where: 'tab' | Direction = 'tab'): Promise<void> {
    if (!this.processes.get(id)) this.processes.learn(await this.outlive.process(id).info());
    this.openProcess(id, where);
  }

  async openShell(where: 'tab' | Direction = 'tab'): Promise<void> {
    await this.notices.try(async () => {
      const { id } = await this.outlive.start({ command: SHELL_LINE, shell: true, tty: true, label: 'shell' });
      await this.openStarted(id, where);
    });
  }

  startProcess(where: 'tab' | Direction = 'tab'): void {
    openStart(this, where);
  }

  newSession(): void {
    openNewSession(this);
  }

  find(): void {
    openPalette(this);
  }

  chooseBeside(direction: Direction): void {
    openPalette(this, direction);
  }

  async copy(text: string): Promise<void> {
    await copyText(text);
    this.notices.say('Copied.');
  }
}
