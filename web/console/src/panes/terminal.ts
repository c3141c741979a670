import { OutliveError } from '@outlive/client';
import { OutliveAddon, type State } from '@outlive/xterm-addon';
import { FitAddon } from '@xterm/addon-fit';
import type { Console } from '../console.js';
import { processMenu } from '../list/process_menu.js';
import { presence } from '../live/presence.js';
import { visible } from '../live/visible.js';
import { element, fill, setText } from '../page/element.js';
import { openMenu } from '../page/menu.js';
import { emulator } from '../terminal/emulator.js';
import { keyBar } from '../terminal/key_bar.js';
import { frame, type Frame, iconButton } from './frame.js';
import type { Pane, PaneSpec } from './pane.js';
import { followProcess } from './process_facts.js';

/** Lines above the screen that come along when a terminal is opened. */
const SCROLLBACK_LINES = 1000;

/** A terminal to work in. Its screen has the size that the server says; what fits here is a wish. */
export class TerminalPane implements Pane {
  readonly element: HTMLElement;
  readonly #console: Console;
  readonly #id: string;
  readonly #terminal = emulator();
  readonly #fit = new FitAddon();
  readonly #addon: OutliveAddon;
  readonly #screen = element('div', { class: 'screen', 'data-testid': 'terminal' });
  readonly #banner = element('div', { class: 'banner', role: 'status', 'data-testid': 'terminal-state' });
  readonly #role = element('span', { class: 'fact read-only', hidden: true }, 'read-only');
  readonly #size = element('span', { class: 'fact wide-only' });
  readonly #watch = new ResizeObserver(() => this.#place());
  readonly #ends: (() => void)[] = [];
  #isReadOnly = false;
  /** What it was last fitted into. */
  #room = '';
  /** Merely connecting does not change a terminal's size. It may if nobody else looks at it. */
  #isAlone = true;

  constructor(console: Console, spec: PaneSpec, key: string) {
    this.#console = console;
    this.#id = spec.id;
    this.#addon = new OutliveAddon({ client: console.outlive });
    this.#terminal.loadAddon(this.#fit);
    this.#terminal.loadAddon(this.#addon);
    const parts = frame(console, spec, key);
    this.element = parts.element;
    parts.body.append(
      element('div', { class: 'screen-room' }, this.#screen, this.#banner),
      keyBar(this.#terminal, (data) => this.#addon.write(data)),
    );
    this.#addActions(parts, key);
    this.#followFacts(parts);
    this.#addon.onStateChange((state) => this.#show(state));
    // What was skipped is not missed: a screen with a thousand lines above it has come instead.
    this.#addon.onNotice(({ code, message }) => code !== 'gap' && console.notices.say(message, 'failed', code));
    this.#addon.onSizeChange((size) => this.#showSize(size));
    this.#watch.observe(this.#screen);
  }

  /** Not in the next frame: what is typed until then would go elsewhere. */
  focus(): void {
    this.#place();
    this.#terminal.focus();
  }

  selection(): string {
    return this.#terminal.getSelection();
  }

  dispose(): void {
    this.#watch.disconnect();
    for (const end of this.#ends) end();
    this.#addon.dispose();
    this.#terminal.dispose();
  }

  #addActions(parts: Frame, key: string): void {
    const people = presence(this.#console, this.#id);
    this.#ends.push(() => people.dispose());
    this.#terminal.onData(() => people.somethingHappened());
    this.#terminal.onWriteParsed(() => people.somethingHappened());
    const more = iconButton('more', 'More actions', () => openMenu(more, processMenu(this.#console, this.#id, key)), {
      'aria-haspopup': 'menu',
      'data-testid': 'pane-menu',
    });
    parts.actions.append(people.element, more);
  }

  #followFacts(parts: Frame): void {
    const ownTitle = element('span', { class: 'fact own-title wide-only' });
    this.#terminal.onTitleChange((title) => setText(ownTitle, visible(title)));
    const unfollow = followProcess(this.#console, this.#id, parts, [this.#role, this.#size, ownTitle], (process, before) => {
      // Started again: the same terminal goes on.
      if (before && process.generation > before.generation && this.#addon.state.name === 'exited') this.#connect();
    });
    this.#ends.push(unfollow);
  }

  #place(): void {
    // Hidden: it has no size, and keeps the one it had.
    if (this.#screen.clientWidth === 0 || this.#screen.clientHeight === 0) return;
    const isNew = !this.#terminal.element;
    if (isNew) this.#terminal.open(this.#screen);
    // Somebody else's size may rule: only another place is a reason to wish for another one.
    const room = `${this.#screen.clientWidth} ${this.#screen.clientHeight}`;
    if (room !== this.#room) this.#fit.fit();
    this.#room = room;
    if (isNew) this.#connect();
  }

  #connect(): void {
    this.#isAlone = (this.#console.processes.get(this.#id)?.attachments ?? 0) === 0;
    this.#addon.connect(this.#id, { begin: 'screen', scrollback: SCROLLBACK_LINES, readOnly: this.#isReadOnly });
  }

  #show(state: State): void {
    // Whoever may not type may still look.
    if (state.name === 'error' && isForbidden(state.error) && !this.#isReadOnly) {
      this.#isReadOnly = true;
      return queueMicrotask(() => this.#connect());
    }
    const role = state.name === 'connected' ? state.role : undefined;
    this.#role.hidden = role !== 'viewer';
    fill(this.#banner, ...words(state, () => this.#connect()));
    // While a connection is on its way the program must not be told of a smaller window; when it is over, nothing may be covered.
    this.#banner.classList.toggle('over', state.name === 'connecting' || state.name === 'reconnecting');
    if (role === 'writer' && this.#isAlone) this.#fit.fit();
  }

  #showSize({ cols, rows }: { cols: number; rows: number }): void {
    setText(this.#size, `${cols}×${rows}`);
    const fits = this.#fit.proposeDimensions();
    this.#screen.classList.toggle('larger', fits !== undefined && (cols > fits.cols || rows > fits.rows));
  }
}

function isForbidden(error: Error): boolean {
  return error instanceof OutliveError && error.status === 403;
}

/** What is to be said below the screen; nothing while all is well. */
function words(state: State, again: () => void): Node[] {
  const say = (text: string, ...more: Node[]) => [element('span', {}, text), ...more];
  switch (state.name) {
    case 'connecting':
      return say('Connecting…');
    case 'reconnecting':
      return say(`Coming back by itself: ${state.why}`);
    case 'exited':
      return say(state.signal ? `It was ended by ${state.signal}.` : `It exited with ${state.exitCode ?? '?'}.`);
    case 'error':
      return say(state.error.message, element('button', { type: 'button', onclick: again }, 'Try again'));
    default:
      return [];
  }
}
