import type { Terminal } from '@xterm/xterm';
import { element } from '../page/element.js';

/** Keys that phone keyboards lack. */
const KEYS: [label: string, data: string, name?: string][] = [
  ['esc', '\x1b', 'Escape'],
  ['tab', '\t', 'Tab'],
  ['^C', '\x03', 'Control C'],
  ['^D', '\x04', 'Control D'],
  ['^Z', '\x1a', 'Control Z'],
  ['←', '\x1b[D', 'Left'],
  ['↑', '\x1b[A', 'Up'],
  ['↓', '\x1b[B', 'Down'],
  ['→', '\x1b[C', 'Right'],
  ['|', '|'],
  ['/', '/'],
  ['-', '-'],
];

/** A row of keys below the screen, shown in small windows only. */
export function keyBar(terminal: Terminal, send: (data: string) => void): HTMLElement {
  const keys = KEYS.map(([label, data, name]) =>
    element(
      'button',
      {
        type: 'button',
        'aria-label': name ?? label,
        // The phone's keyboard closes when the terminal loses the focus.
        onpointerdown: (event: Event) => event.preventDefault(),
        onclick: () => {
          // In application cursor mode, arrow keys are sent as `ESC O x` instead of `ESC [ x`.
          const isArrow = data.startsWith('\x1b[');
          send(isArrow && terminal.modes.applicationCursorKeysMode ? data.replace('[', 'O') : data);
          terminal.focus();
        },
      },
      label,
    ),
  );
  return element('div', { class: 'key-bar', role: 'toolbar', 'aria-label': 'Keys' }, ...keys);
}
