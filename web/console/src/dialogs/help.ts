import { keyLabel, PREFIX, shortcut } from '../commands/command.js';
import type { Console } from '../console.js';
import { openDialog } from '../page/dialog.js';
import { element } from '../page/element.js';

export function openHelp(console: Console): void {
  openDialog(
    'Keyboard shortcuts',
    'help',
    () => {
      const row = (keys: string, action: string) =>
        element('div', {}, element('dt', {}, element('kbd', {}, keys)), element('dd', {}, action));
      const listed = console.commands.filter((command) => command.isListed !== false);
      return [
        element(
          'p',
          {},
          'A terminal receives every key except ',
          element('kbd', {}, PREFIX),
          '. The key after it is a console command. Press it twice to type it once.',
        ),
        element(
          'dl',
          { class: 'keys' },
          ...listed.map((command) => row(shortcut(command) ?? '', command.title)),
          row(`${PREFIX} ← ↑ ↓ →`, 'Focus pane'),
          row(`${PREFIX} 1 … 9`, 'Show tab'),
        ),
        element('h3', {}, 'Outside terminals'),
        element(
          'dl',
          { class: 'keys' },
          ...console.commands.flatMap(({ plainKey, title }) => (plainKey ? [row(keyLabel(plainKey), title)] : [])),
          row('↑ ↓ Enter', 'Select and open in the list'),
        ),
      ];
    },
    'wide',
  );
}
