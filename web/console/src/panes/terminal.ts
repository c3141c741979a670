/** The pane of a terminal: an emulator that the addon connects to a process. */

import { OutliveError } from '@outlive/client';
import { OutliveAddon, type State } from '@outlive/xterm-addon';
import { FitAddon } from '@xterm/addon-fit';
import type { Console } from '../console.js';
import { presenceButton } from '../dialogs/presence.js';
import { element, fill, setText } from '../page/element.js';
import { openMenu } from '../page/menu.js';
import { processMenu } from '../sidebar/process_menu.js';
import { escapeInvisible, exitMessage } from '../state/format.js';
import { createEmulator } from '../terminal/emulator.js';
import { keyBar } from '../terminal/key_bar.js';
import { createFrame, iconButton, type PaneFrame } from './frame.js';
import type { Pane, PaneSpec } from './pane.js';
import { followProcess } from './process_facts.js';

/** Lines above the screen that are loaded when a terminal is opened. */
const SCROLLBACK_LINES = 1000;

/** An interactive terminal. The server decides its size; the pane only requests the size that fits. */
export class TerminalPane implements Pane {
  readonly element: HTMLElement;
  readonly #console: Console;
  readonly #id: string;
  readonly #terminal = createEmulator();
  readonly #fit = new FitAddon();
  readonly #addon: OutliveAddon;
  readonly #screen = element('div', { class: 'screen', 'data-testid': 'terminal' });
  readonly #banner = element('div', { class: 'banner', role: 'status', 'data-testid': 'terminal-state' });
  readonly #readOnlyLabel = element('span', { class: 'fact read-only', hidden: true }, 'read-only');
  readonly #size = element('span', { class: 'fact wide-only' });
  readonly #resizeObserver = new ResizeObserver(() => this.#fitToPane());
  readonly #disposers: (() => void)[] = [];
  #isReadOnly = false;
  /** Size of the screen element when the terminal was last fitted to it. */
  #fittedTo = '';
  /** No other client was attached when this one connected. Only then does connecting change the size. */
  #isOnlyClient = true;

  constructor(console: Console, spec: PaneSpec, key: string) {
    this.#console = console;
    this.#id = spec.id;
    this.#addon = new OutliveAddon({ client: console.outlive });
    this.#terminal.loadAddon(this.#fit);
    this.#terminal.loadAddon(this.#addon);
    const frame = createFrame(console, spec, key);
    this.element = frame.element;
    frame.body.append(
      element('div', { class: 'screen-area' }, this.#screen, this.#banner),
      keyBar(this.#terminal, (data) => this.#addon.write(data)),
    );
    this.#addActions(frame, key);
    this.#followProcess(frame);
    this.#addon.onStateChange((state) => this.#showState(state));
    // A gap needs no notice: the repaint after it includes 1000 lines of scrollback.
    this.#addon.onNotice(({ code, message }) => code !== 'gap' && console.notices.show(message, 'failed', code));
    this.#addon.onSizeChange((size) => this.#showSize(size));
    this.#resizeObserver.observe(this.#screen);
  }

  /** Opens the terminal synchronously; keys pressed before the next frame would otherwise be lost. */
  focus(): void {
    this.#fitToPane();
    this.#terminal.focus();
  }

  selection(): string {
    return this.#terminal.getSelection();
  }

  dispose(): void {
    this.#resizeObserver.disconnect();
    for (const dispose of this.#disposers) dispose();
    this.#addon.dispose();
    this.#terminal.dispose();
  }

  #addActions(frame: PaneFrame, key: string): void {
    const presence = presenceButton(this.#console, this.#id);
    this.#disposers.push(() => presence.dispose());
    this.#terminal.onData(() => presence.noteActivity());
    this.#terminal.onWriteParsed(() => presence.noteActivity());
    const more = iconButton('more', 'More actions', () => openMenu(more, processMenu(this.#console, this.#id, key)), {
      'aria-haspopup': 'menu',
      'data-testid': 'pane-menu',
    });
    frame.actions.append(presence.element, more);
  }

  #followProcess(frame: PaneFrame): void {
    const programTitle = element('span', { class: 'fact program-title wide-only' });
    this.#terminal.onTitleChange((title) => setText(programTitle, escapeInvisible(title)));
    const facts = [this.#readOnlyLabel, this.#size, programTitle];
    const unsubscribe = followProcess(this.#console, this.#id, frame, facts, (process, previous) => {
      // The process was started again on the same terminal.
      const isRestarted = previous && process.generation > previous.generation;
      if (isRestarted && this.#addon.state.name === 'exited') this.#connect();
    });
    this.#disposers.push(unsubscribe);
  }

  #fitToPane(): void {
    // A hidden pane has no size; the terminal keeps its own.
    if (this.#screen.clientWidth === 0 || this.#screen.clientHeight === 0) return;
    const isNew = !this.#terminal.element;
    if (isNew) this.#terminal.open(this.#screen);
    // Another client's size may be effective, so a new size is only requested when the pane changes.
    const paneSize = `${this.#screen.clientWidth} ${this.#screen.clientHeight}`;
    if (paneSize !== this.#fittedTo) this.#fit.fit();
    this.#fittedTo = paneSize;
    if (isNew) this.#connect();
  }

  #connect(): void {
    this.#isOnlyClient = (this.#console.processes.get(this.#id)?.attachments ?? 0) === 0;
    this.#addon.connect(this.#id, { begin: 'screen', scrollback: SCROLLBACK_LINES, readOnly: this.#isReadOnly });
  }

  #showState(state: State): void {
    // A token without write access can still attach as a viewer.
    if (state.name === 'error' && isForbidden(state.error) && !this.#isReadOnly) {
      this.#isReadOnly = true;
      return queueMicrotask(() => this.#connect());
    }
    const role = state.name === 'connected' ? state.role : undefined;
    this.#readOnlyLabel.hidden = role !== 'viewer';
    fill(this.#banner, ...bannerContent(state, () => this.#connect()));
    // While connecting, the banner overlays the screen: shrinking it would resize the program's terminal.
    this.#banner.classList.toggle('overlay', state.name === 'connecting' || state.name === 'reconnecting');
    if (role === 'writer' && this.#isOnlyClient) this.#fit.fit();
  }

  #showSize({ cols, rows }: { cols: number; rows: number }): void {
    setText(this.#size, `${cols}×${rows}`);
    const fitting = this.#fit.proposeDimensions();
    const isTooLarge = fitting !== undefined && (cols > fitting.cols || rows > fitting.rows);
    this.#screen.classList.toggle('overflowing', isTooLarge);
  }
}

function isForbidden(error: Error): boolean {
  return error instanceof OutliveError && error.status === 403;
}

/** The banner below the screen; empty while connected. */
function bannerContent(state: State, retry: () => void): Node[] {
  const text = (message: string) => element('span', {}, message);
  switch (state.name) {
    case 'connecting':
      return [text('Connecting…')];
    case 'reconnecting':
      return [text(`Reconnecting… (${state.why})`)];
    case 'exited':
      return [text(exitMessage(state))];
    case 'error':
      return [text(state.error.message), element('button', { type: 'button', onclick: retry }, 'Retry')];
    default:
      return [];
  }
}
