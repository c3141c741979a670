import type { Console } from '../console.js';
import { openHelp } from '../dialogs/help.js';
import { toggleTheme } from '../look/theme.js';
import { element, setText } from '../page/element.js';
import { icon } from '../page/icons.js';
import { mark } from '../page/mark.js';
import { iconButton } from '../panes/frame.js';
import { ProcessList } from './process_list.js';
import { sessionList } from './session_list.js';

/** Shows what it changes to. */
function themeButton(): HTMLElement {
  const button = iconButton('moon', 'Light or dark', toggleTheme, { 'data-testid': 'theme' });
  button.append(icon('sun'));
  return button;
}

export function sidebar(console: Console): { element: HTMLElement; filter: HTMLInputElement; focus: () => void } {
  const processes = new ProcessList(console);
  const light = element('span', { class: 'link-state', role: 'status', 'data-testid': 'connection' });
  const showLink = () => {
    light.className = `link-state ${console.connection.isUp ? 'up' : 'down'}`;
    setText(light, console.connection.isUp ? '' : 'no answer, trying again');
  };
  console.connection.onChange(showLink);
  showLink();
  const made = element(
    'nav',
    { class: 'sidebar', 'aria-label': 'Processes and sessions' },
    element(
      'header',
      { class: 'brand' },
      mark(),
      element('h1', {}, 'outlive'),
      light,
      iconButton('search', 'Find anything (Ctrl-K)', () => console.find(), { 'data-testid': 'find' }),
      themeButton(),
      iconButton('help', 'Keys (?)', () => openHelp(console), { 'data-testid': 'help-button' }),
    ),
    element(
      'div',
      { class: 'sidebar-tools' },
      processes.filter,
      element(
        'button',
        { type: 'button', class: 'primary', 'data-testid': 'start', onclick: () => console.startProcess() },
        icon('plus'),
        'Start',
      ),
    ),
    element(
      'div',
      { class: 'sidebar-lists' },
      element('h2', {}, 'Processes'),
      processes.element,
      element(
        'h2',
        {},
        'Sessions',
        iconButton('plus', 'New session', () => console.newSession(), { 'data-testid': 'new-session' }),
      ),
      sessionList(console),
    ),
  );
  return { element: made, filter: processes.filter, focus: () => processes.focus() };
}
