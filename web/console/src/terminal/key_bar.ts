import { element } from '../page/element.js';

/** Keys that a phone has not. Shown on coarse pointers only. */
const KEYS: [label: string, data: string, name?: string][] = [
  ['esc', '\x1b', 'Escape'],
  ['tab', '\t', 'Tab'],
  ['^C', '\x03', 'Control C'],
  ['^D', '\x04', 'Control D'],
  ['^L', '\x0c', 'Control L'],
  ['←', '\x1b[D', 'Left'],
  ['↑', '\x1b[A', 'Up'],
  ['↓', '\x1b[B', 'Down'],
  ['→', '\x1b[C', 'Right'],
  ['|', '|'],
  ['/', '/'],
  ['-', '-'],
];

export function keyBar(type: (data: string) => void, focus: () => void): HTMLElement {
  const keys = KEYS.map(([label, data, name]) =>
    element(
      'button',
      {
        type: 'button',
        'aria-label': name ?? label,
        // The keyboard of the phone would go away with the focus.
        onpointerdown: (event: Event) => event.preventDefault(),
        onclick: () => {
          type(data);
          focus();
        },
      },
      label,
    ),
  );
  return element('div', { class: 'key-bar', role: 'toolbar', 'aria-label': 'Keys' }, ...keys);
}
