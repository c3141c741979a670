import { Outlive, OutliveError } from '@outlive/client';
import { OutliveAddon } from '@outlive/xterm-addon';
import { element, fill, setText } from '../page/element.js';
import { logo } from '../page/icons.js';
import { createEmulator } from '../terminal/emulator.js';
import { fitFont } from '../terminal/fit_font.js';
import type { SharedTicket } from './credentials.js';

const STATE_LABELS = {
  connected: 'live',
  connecting: 'connecting',
  disconnected: 'disconnected',
  reconnecting: 'connection lost',
  exited: 'exited',
  error: 'disconnected',
};

/**
 * Browsers hide why a connection is refused, so after this many attempts the link counts as expired or revoked. A page
 * that was connected tries for about ten minutes, because the network or the server may come back.
 */
const FIRST_ATTEMPTS = 3;
const RECONNECT_ATTEMPTS = 60;

/** The page of a share link: one terminal, read-only. With a reusable ticket it reconnects by itself. */
export function sharedTerminal({ ticket, process, isReusable }: SharedTicket): HTMLElement {
  const terminal = createEmulator({ disableStdin: true });
  const addon = new OutliveAddon({ client: new Outlive() });
  terminal.loadAddon(addon);
  const screen = element('div', { class: 'screen', 'data-testid': 'terminal' });
  const state = element('span', { class: 'fact state', role: 'status', 'data-testid': 'state' });
  const dot = element('span', { class: 'dot waiting' });
  const banner = element('div', { class: 'banner', role: 'alert', 'data-testid': 'terminal-state' });
  let attemptsLeft = FIRST_ATTEMPTS;
  const reuseTicket = async () => {
    attemptsLeft -= 1;
    if (attemptsLeft < 0) throw new OutliveError('ticket_invalid', 'the link has expired or was revoked');
    return ticket;
  };
  addon.onStateChange(({ name }) => {
    if (name === 'connected') attemptsLeft = RECONNECT_ATTEMPTS;
    dot.className = `dot ${name === 'connected' ? 'running' : name === 'connecting' ? 'waiting' : 'quiet'}`;
    setText(state, STATE_LABELS[name]);
    const isFinished = name === 'error' || (name === 'reconnecting' && !isReusable);
    if (isFinished)
      fill(banner, `This link has expired or was ${isReusable ? 'revoked' : 'already used'}. Ask for a new one.`);
    else fill(banner, name === 'reconnecting' ? 'Reconnecting…' : '');
  });
  const fit = fitFont(terminal, screen);
  addon.onSizeChange(() => fit());
  const observer = new ResizeObserver(() => {
    if (screen.clientWidth === 0) return;
    if (!terminal.element) {
      terminal.open(screen);
      addon.connect(process, {
        begin: 'screen',
        scrollback: 1000,
        readOnly: true,
        ticket: isReusable ? reuseTicket : ticket,
      });
    }
    fit();
  });
  observer.observe(screen);
  return element(
    'main',
    { class: 'shared', 'data-testid': 'shared' },
    element(
      'header',
      { class: 'pane-bar' },
      logo(),
      dot,
      element('span', { class: 'pane-title' }, 'Shared terminal'),
      element('span', { class: 'facts' }, state),
      element('span', { class: 'read-only' }, 'read-only'),
    ),
    element('div', { class: 'pane-body' }, screen, banner),
  );
}
