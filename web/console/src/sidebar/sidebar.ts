import type { Console } from '../console.js';
import { openHelp } from '../dialogs/help.js';
import { element, setText } from '../page/element.js';
import { icon, logo } from '../page/icons.js';
import { iconButton } from '../panes/frame.js';
import { toggleTheme } from '../styles/theme.js';
import { bootList } from './boot_list.js';
import { ProcessList } from './process_list.js';
import { sessionList } from './session_list.js';

export interface Sidebar {
  element: HTMLElement;
  filter: HTMLInputElement;
  focus(): void;
}

export function createSidebar(console: Console): Sidebar {
  const processes = new ProcessList(console);
  const status = element('span', { class: 'connection-state', role: 'status', 'data-testid': 'connection' });
  const showStatus = () => {
    status.className = `connection-state ${console.connection.isUp ? 'up' : 'down'}`;
    setText(status, console.connection.isUp ? '' : 'Reconnecting…');
  };
  console.connection.onChange(showStatus);
  showStatus();
  const start = () => console.startProcess();
  const sidebar = element(
    'nav',
    { class: 'sidebar', 'aria-label': 'Processes and sessions' },
    element(
      'header',
      { class: 'brand' },
      logo(),
      element('h1', {}, 'outlive'),
      status,
      iconButton('search', 'Find (Ctrl-K)', () => console.openPalette(), { 'data-testid': 'find' }),
      themeButton(),
      iconButton('help', 'Keyboard shortcuts (?)', () => openHelp(console), { 'data-testid': 'help-button' }),
    ),
    element(
      'div',
      { class: 'sidebar-tools' },
      processes.filter,
      element(
        'button',
        { type: 'button', class: 'primary', 'data-testid': 'start', onclick: start },
        icon('plus'),
        'Start',
      ),
    ),
    element(
      'div',
      { class: 'sidebar-lists' },
      element('h2', {}, 'Processes'),
      processes.element,
      bootList(console),
      element(
        'h2',
        {},
        'Sessions',
        iconButton('plus', 'New session', () => console.newSession(), { 'data-testid': 'new-session' }),
      ),
      sessionList(console),
    ),
  );
  return { element: sidebar, filter: processes.filter, focus: () => processes.focus() };
}

/** Contains both icons; CSS shows the one of the theme it switches to. */
function themeButton(): HTMLElement {
  const button = iconButton('moon', 'Toggle light and dark', toggleTheme, { 'data-testid': 'theme' });
  button.append(icon('sun'));
  return button;
}
