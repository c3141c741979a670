import { Outlive } from '@outlive/client';
import { OutliveAddon } from '@outlive/xterm-addon';
import { element, fill, setText } from '../page/element.js';
import { mark } from '../page/mark.js';
import { emulator } from '../terminal/emulator.js';
import { fitFont } from '../terminal/fit_font.js';

/** One terminal that somebody shared: read-only, by a ticket that is good for this connection. */
export function sharedTerminal(ticket: string, process: string): HTMLElement {
  const terminal = emulator({ disableStdin: true });
  const addon = new OutliveAddon({ client: new Outlive() });
  terminal.loadAddon(addon);
  const screen = element('div', { class: 'screen', 'data-testid': 'terminal' });
  const state = element('span', { class: 'fact state', role: 'status', 'data-testid': 'state' });
  const dot = element('span', { class: 'dot waiting' });
  const banner = element('div', { class: 'banner', role: 'alert', 'data-testid': 'terminal-state' });
  addon.onStateChange((now) => {
    dot.className = `dot ${now.name === 'connected' ? 'running' : now.name === 'connecting' ? 'waiting' : 'quiet'}`;
    setText(
      state,
      {
        connected: 'live',
        connecting: 'connecting',
        disconnected: 'not connected',
        reconnecting: 'connection lost',
        exited: 'it has ended',
        error: 'not connected',
      }[now.name],
    );
    const isOver = now.name === 'error' || now.name === 'reconnecting';
    fill(banner, isOver ? 'This link shows nothing more: it works once, within 60 seconds of being made. Ask for a new one.' : '');
  });
  const fit = fitFont(terminal, screen);
  addon.onSizeChange(() => fit());
  const watch = new ResizeObserver(() => {
    if (screen.clientWidth === 0) return;
    if (!terminal.element) {
      terminal.open(screen);
      addon.connect(process, { begin: 'screen', scrollback: 1000, readOnly: true, ticket });
    }
    fit();
  });
  watch.observe(screen);
  return element(
    'main',
    { class: 'shared', 'data-testid': 'shared' },
    element(
      'header',
      { class: 'pane-bar' },
      mark(),
      dot,
      element('span', { class: 'pane-title' }, 'A shared terminal'),
      element('span', { class: 'facts' }, state),
      element('span', { class: 'read-only' }, 'read-only'),
    ),
    element('div', { class: 'pane-body' }, screen, banner),
  );
}
