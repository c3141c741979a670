import { PREFIX } from '../commands/command.js';
import type { Console } from '../console.js';
import { element } from '../page/element.js';
import { icon } from '../page/icons.js';

/** Shown in the workspace when no tab is open. */
export function welcome(console: Console): HTMLElement {
  const hint = (keys: string, action: string) => element('li', {}, element('kbd', {}, keys), ` ${action}`);
  return element(
    'div',
    { class: 'welcome', 'data-testid': 'welcome' },
    element('h2', {}, 'No open tabs'),
    element('p', {}, 'Select a process in the list or start one. It keeps running when this page is closed.'),
    element(
      'p',
      { class: 'welcome-actions' },
      element(
        'button',
        { type: 'button', class: 'primary', onclick: () => void console.openShell(), 'data-testid': 'new-terminal' },
        icon('command'),
        'New terminal',
      ),
      element('button', { type: 'button', onclick: () => console.startProcess() }, 'Start process…'),
    ),
    element(
      'ul',
      { class: 'hints' },
      hint('Ctrl-K', 'find'),
      hint('?', 'keyboard shortcuts'),
      hint(PREFIX, 'commands in a terminal'),
    ),
  );
}
