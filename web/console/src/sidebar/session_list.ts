import type { SessionInfo } from '@outlive/client';
import type { Console } from '../console.js';
import { confirm } from '../dialogs/confirm.js';
import { element, fill } from '../page/element.js';
import { openMenu } from '../page/menu.js';
import { iconButton } from '../panes/frame.js';

export function sessionList(console: Console): HTMLElement {
  const list = element('ul', { class: 'rows', 'aria-label': 'Sessions', 'data-testid': 'sessions' });
  const row = (session: SessionInfo) => {
    const more = iconButton(
      'more',
      `Actions for session ${session.id}`,
      () =>
        openMenu(more, [
          { label: 'Open', run: () => console.workspace.open({ kind: 'session', id: session.id }) },
          { label: 'Delete…', isDangerous: true, run: () => confirmDeleteSession(console, session.id) },
        ]),
      { 'aria-haspopup': 'menu' },
    );
    const open = element(
      'button',
      { type: 'button', class: 'row-main', onclick: () => console.workspace.open({ kind: 'session', id: session.id }) },
      element('span', { class: `dot session ${session.status}` }),
      element('span', { class: 'row-title' }, session.id),
      element('span', { class: 'age' }),
      element(
        'span',
        { class: 'row-facts' },
        element('span', {}, session.status),
        element('span', { class: 'kind' }, session.shell),
        session.cwd ? element('span', { class: 'mono' }, session.cwd) : null,
      ),
    );
    return element('li', { class: 'row', 'data-testid': 'session', 'data-id': session.id }, open, more);
  };
  const draw = () => {
    const rows = console.sessions.all().map(row);
    fill(list, ...(rows.length > 0 ? rows : [element('li', { class: 'none' }, 'No sessions')]));
  };
  console.sessions.onChange(draw);
  draw();
  return list;
}

export function confirmDeleteSession(console: Console, id: string): void {
  confirm(
    `Delete session ${id}?`,
    'Ends the shell and a running command, and deletes the state and the command history of the session.',
    'Delete',
    () =>
      console.notices.attempt(async () => {
        await console.outlive.session(id).delete();
        console.workspace.closeSession(id);
      }),
  );
}
