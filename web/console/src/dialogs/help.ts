import { keyName, PREFIX, shortcut } from '../commands/command.js';
import type { Console } from '../console.js';
import { openDialog } from '../page/dialog.js';
import { element } from '../page/element.js';

export function openHelp(console: Console): void {
  openDialog(
    'Keys',
    'help',
    () => {
      const row = (keys: string, what: string) => element('div', {}, element('dt', {}, element('kbd', {}, keys)), element('dd', {}, what));
      const listed = console.commands.filter((command) => command.isListed !== false);
      return [
        element(
          'p',
          {},
          'A terminal gets every key but one: ',
          element('kbd', {}, PREFIX),
          '. The key after it is for the console; twice, it is typed once.',
        ),
        element(
          'dl',
          { class: 'keys' },
          ...listed.map((command) => row(shortcut(command) ?? '', command.title)),
          row(`${PREFIX} ← ↑ ↓ →`, 'Pane to that side'),
          row(`${PREFIX} 1 … 9`, 'Tab by number'),
        ),
        element('h3', {}, 'Outside of terminals'),
        element(
          'dl',
          { class: 'keys' },
          ...console.commands.flatMap(({ plainKey, title }) => (plainKey ? [row(keyName(plainKey), title)] : [])),
          row('↑ ↓ Enter', 'Move in the list, open'),
        ),
      ];
    },
    'wide',
  );
}
