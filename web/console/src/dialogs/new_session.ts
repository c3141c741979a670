import type { SessionOptions } from '@outlive/client';
import type { Console } from '../console.js';
import { openDialog } from '../page/dialog.js';
import { element } from '../page/element.js';
import { errorLine, labelled } from '../page/form.js';

export function openNewSession(console: Console): void {
  openDialog('New session', 'session-dialog', (close) => {
    const plain = { autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', class: 'mono' };
    const id = element('input', { ...plain, placeholder: 'work', autofocus: true, 'data-testid': 'session-id' });
    const cwd = element('input', { ...plain, placeholder: 'same as the server' });
    const shell = element('input', { ...plain, placeholder: 'bash' });
    const onExit = element(
      'select',
      {},
      element('option', { value: 'fail' }, 'End the session (default)'),
      element('option', { value: 'fresh' }, 'Start a new shell'),
      element('option', { value: 'restore' }, 'Start a new shell and restore its state'),
    );
    const errorMessage = errorLine();
    const create = async () => {
      const options: SessionOptions = { onExit: onExit.value as 'fail' };
      if (id.value.trim()) options.id = id.value.trim();
      if (cwd.value.trim()) options.cwd = cwd.value.trim();
      if (shell.value.trim()) options.shell = shell.value.trim();
      try {
        const session = await console.outlive.createSession(options);
        console.sessions.add(await session.info());
        close();
        console.workspace.open({ kind: 'session', id: session.id });
      } catch (error) {
        errorMessage.show(error);
      }
    };
    return [
      element('p', {}, 'A persistent shell: folder, variables and functions carry over from one command to the next.'),
      element(
        'form',
        {
          class: 'fields',
          onsubmit: (event: Event) => {
            event.preventDefault();
            void create();
          },
        },
        element('div', { class: 'pair' }, labelled('Name', id, 'optional'), labelled('Shell', shell, 'optional')),
        labelled('Folder', cwd, 'optional'),
        labelled('When the shell exits', onExit),
        errorMessage.element,
        element(
          'footer',
          {},
          element('button', { type: 'button', onclick: close }, 'Cancel'),
          element('button', { type: 'submit', class: 'primary', 'data-testid': 'session-submit' }, 'Create'),
        ),
      ),
    ];
  });
}
