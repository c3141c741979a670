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
import { frame, iconButton } from './frame.js';
import type { Pane, PaneSpec } from './pane.js';
import { followProcess } from './process_facts.js';

/** Lines above the screen that come along when a terminal is opened. */
const SCROLLBACK_LINES = 1000;

/** A terminal to work in. Its screen has the size that the server says; what fits here is a wish. */
export function terminalPane(console: Console, spec: PaneSpec, key: string): Pane {
  const terminal = emulator();
  const fit = new FitAddon();
  const addon = new OutliveAddon({ client: console.outlive });
  terminal.loadAddon(fit);
  terminal.loadAddon(addon);

  const parts = frame(console, spec, key);
  const screen = element('div', { class: 'screen', 'data-testid': 'terminal' });
  const banner = element('div', { class: 'banner', role: 'status', 'data-testid': 'terminal-state' });
  parts.body.append(
    screen,
    banner,
    keyBar(terminal, (data) => addon.write(data)),
  );

  const people = presence(console, spec.id);
  const more = iconButton('more', 'More actions', () => openMenu(more, processMenu(console, spec.id, key)), {
    'aria-haspopup': 'menu',
    'data-testid': 'pane-menu',
  });
  parts.actions.append(people.element, more);

  const sizes = element('span', { class: 'fact wide-only' });
  const role = element('span', { class: 'fact read-only', hidden: true }, 'read-only');
  const ownTitle = element('span', { class: 'fact own-title wide-only' });
  terminal.onTitleChange((title) => setText(ownTitle, visible(title)));
  const unfollow = followProcess(console, spec.id, parts, [role, sizes, ownTitle], (process, before) => {
    // Started again: the same terminal goes on.
    if (before && process.generation > before.generation && addon.state.name === 'exited') connect();
  });

  addon.onStateChange((state) => {
    // Whoever may not type may still look.
    if (state.name === 'error' && isForbidden(state.error) && !isReadOnly) {
      isReadOnly = true;
      return queueMicrotask(connect);
    }
    role.hidden = !(state.name === 'connected' && state.role === 'viewer');
    fill(banner, ...words(state, connect));
    if (state.name === 'connected' && state.role === 'writer' && isAlone) fit.fit();
  });
  addon.onNotice(({ code, message }) => console.notices.say(message, 'failed', code));
  addon.onSizeChange(({ cols, rows }) => {
    setText(sizes, `${cols}×${rows}`);
    const fits = fit.proposeDimensions();
    screen.classList.toggle('larger', fits !== undefined && (cols > fits.cols || rows > fits.rows));
  });
  terminal.onData(() => people.somethingHappened());
  terminal.onWriteParsed(() => people.somethingHappened());

  let isReadOnly = false;
  /** Merely connecting does not change a terminal's size. It may if nobody else looks at it. */
  let isAlone = true;
  const place = () => {
    // Hidden: it has no size, and keeps the one it had.
    if (screen.clientWidth === 0 || screen.clientHeight === 0) return;
    const isNew = !terminal.element;
    if (isNew) terminal.open(screen);
    fit.fit();
    if (isNew) connect();
  };
  const watch = new ResizeObserver(place);
  watch.observe(screen);

  function connect(): void {
    isAlone = (console.processes.get(spec.id)?.attachments ?? 0) === 0;
    addon.connect(spec.id, { begin: 'screen', scrollback: SCROLLBACK_LINES, readOnly: isReadOnly });
  }

  return {
    element: parts.element,
    selection: () => terminal.getSelection(),
    focus() {
      // Not in the next frame: what is typed until then would go elsewhere.
      place();
      terminal.focus();
    },
    dispose() {
      watch.disconnect();
      unfollow();
      people.dispose();
      addon.dispose();
      terminal.dispose();
    },
  };
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
