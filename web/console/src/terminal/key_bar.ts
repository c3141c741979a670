import type { Terminal } from '@xterm/xterm';
import { element } from '../page/element.js';

/** Keys that a phone has not. */
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

/** A row of them below the screen; shown on small windows only. */
export function keyBar(terminal: Terminal, type: (data: string) => void): HTMLElement {
  const keys = KEYS.map(([label, data, name]) =>
    element(
      'button',
      {
        type: 'button',
        'aria-label': name ?? label,
        // The keyboard of the phone would go away with the focus.
        onpointerdown: (event: Event) => event.preventDefault(),
        onclick: () => {
          // Full-screen programs want their arrows otherwise.
          const isArrow = data.startsWith('\x1b[');
          type(isArrow && terminal.modes.applicationCursorKeysMode ? data.replace('[', 'O') : data);
          terminal.focus();
        },
      },
      label,
    ),
  );
  return element('div', { class: 'key-bar', role: 'toolbar', 'aria-label': 'Keys' }, ...keys);
}
