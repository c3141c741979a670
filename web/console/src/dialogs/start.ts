import type { StartOptions } from '@outlive/client';
import type { Console } from '../console.js';
import type { Direction } from '../layout/tree.js';
import { openDialog } from '../page/dialog.js';
import { element, fill } from '../page/element.js';
import { errorLine, labelled } from '../page/form.js';

export function openStart(console: Console, where: 'tab' | Direction = 'tab'): void {
  openDialog('Start process', 'start-dialog', (close) => {
    const command = field('textarea', {
      rows: 1,
      placeholder: 'npm run dev',
      'data-testid': 'command',
      required: true,
      autofocus: true,
      class: 'mono',
    });
    const isArgv = element('input', { type: 'checkbox', id: 'start-argv', 'data-testid': 'argv' });
    const isTerminal = element('input', { type: 'checkbox', id: 'start-tty', checked: true, 'data-testid': 'tty' });
    const tag = field('input', { placeholder: 'web', 'data-testid': 'tag', class: 'mono' });
    const cwd = field('input', { placeholder: 'same as the server', 'data-testid': 'cwd', class: 'mono' });
    const env = field('textarea', { rows: 2, placeholder: 'PORT=3000', 'data-testid': 'env', class: 'mono' });
    const errorMessage = errorLine();
    const hint = element('span', { class: 'hint' });
    const submit = element('button', { type: 'submit', class: 'primary', 'data-testid': 'start-submit' }, 'Start');

    const updateHint = () => {
      const argvHint = 'One argument per line, passed unchanged.';
      fill(hint, isArgv.checked ? argvHint : 'A shell command line: pipes, && and variables work.');
      command.rows = isArgv.checked ? 4 : 1;
      command.placeholder = isArgv.checked ? 'npm\nrun\ndev' : 'npm run dev';
    };
    isArgv.addEventListener('change', updateHint);
    updateHint();

    const readCommand = (): Pick<StartOptions, 'command' | 'args' | 'shell'> => {
      if (!isArgv.checked) return { command: command.value.trim(), shell: true };
      const [program = '', ...args] = parseArgv(command.value);
      return { command: program, args };
    };
    const start = async () => {
      errorMessage.clear();
      submit.disabled = true;
      try {
        const options: StartOptions = { ...readCommand(), tty: isTerminal.checked };
        if (cwd.value.trim()) options.cwd = cwd.value.trim();
        if (tag.value.trim()) options.tag = tag.value.trim();
        const variables = parseEnv(env.value);
        if (Object.keys(variables).length > 0) options.env = variables;
        const { id } = await console.outlive.start(options);
        close();
        await console.openStarted(id, where);
      } catch (error) {
        errorMessage.show(error);
      } finally {
        submit.disabled = false;
      }
    };
    const form = element(
      'form',
      {
        class: 'fields',
        onsubmit: (event: Event) => {
          event.preventDefault();
          void start();
        },
        onkeydown: (event: KeyboardEvent) => {
          // Enter submits a shell command line; in other fields Ctrl-Enter does.
          const isCommandLine = event.target === command && !isArgv.checked && !event.shiftKey;
          if (event.key !== 'Enter' || !(isCommandLine || event.ctrlKey || event.metaKey)) return;
          event.preventDefault();
          form.requestSubmit();
        },
      },
      labelled('Command', command),
      element(
        'div',
        { class: 'checks' },
        element('label', {}, isTerminal, ' Terminal'),
        element('label', {}, isArgv, ' Separate arguments'),
        hint,
      ),
      element('div', { class: 'pair' }, labelled('Tag', tag, 'optional'), labelled('Folder', cwd, 'optional')),
      labelled('Variables', env, 'NAME=value, one per line'),
      errorMessage.element,
      element('footer', {}, element('button', { type: 'button', onclick: close }, 'Cancel'), submit),
    );
    return [form];
  });
}

function field<Name extends 'input' | 'textarea'>(
  name: Name,
  attributes: Record<string, string | number | boolean>,
): HTMLElementTagNameMap[Name] {
  return element(name, { autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', ...attributes });
}

/** One argument per line, unchanged. Empty lines at the end are ignored. */
export function parseArgv(text: string): string[] {
  const lines = text.split('\n');
  while (lines.length > 0 && lines.at(-1) === '') lines.pop();
  return lines;
}

/** `NAME=value` per line. A line without a name is an error, so that a typo does not go unnoticed. */
export function parseEnv(text: string): Record<string, string> {
  const variables: Record<string, string> = {};
  for (const line of text.split('\n')) {
    if (line.trim() === '') continue;
    const equals = line.indexOf('=');
    if (equals < 1) throw new Error(`invalid variable: ${line}; use NAME=value, one per line`);
    variables[line.slice(0, equals).trim()] = line.slice(equals + 1);
  }
  return variables;
}
