import { PREFIX } from '../commands/command.js';
import type { Console } from '../console.js';
import { element } from '../page/element.js';
import { icon } from '../page/icons.js';

/** Where nothing is open yet. */
export function welcome(console: Console): HTMLElement {
  const hint = (keys: string, what: string) => element('li', {}, element('kbd', {}, keys), ` ${what}`);
  return element(
    'div',
    { class: 'welcome', 'data-testid': 'welcome' },
    element('h2', {}, 'Nothing is open.'),
    element('p', {}, 'Choose a process from the list, or start one. It goes on when this page is closed.'),
    element(
      'p',
      { class: 'welcome-actions' },
      element(
        'button',
        { type: 'button', class: 'primary', onclick: () => void console.openShell(), 'data-testid': 'new-terminal' },
        icon('command'),
        'New terminal',
      ),
      element('button', { type: 'button', onclick: () => console.startProcess() }, 'Start a process…'),
    ),
    element('ul', { class: 'hints' }, hint('Ctrl-K', 'find anything'), hint('?', 'all keys'), hint(PREFIX, 'inside a terminal')),
  );
}
