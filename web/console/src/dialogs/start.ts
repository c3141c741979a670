import type { StartOptions } from '@outlive/client';
import type { Console } from '../console.js';
import { openDialog } from '../page/dialog.js';
import { element, fill } from '../page/element.js';
import { labelled, refusal } from '../page/form.js';
import { readArgv, readEnv } from './start_fields.js';

type Where = 'tab' | 'row' | 'column';

export function openStart(console: Console, where: Where = 'tab'): void {
  openDialog('Start a process', 'start-dialog', (close) => {
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
    const cwd = field('input', { placeholder: 'as the server', 'data-testid': 'cwd', class: 'mono' });
    const env = field('textarea', { rows: 2, placeholder: 'PORT=3000', 'data-testid': 'env', class: 'mono' });
    const why = refusal();
    const hint = element('span', { class: 'hint' });
    const submit = element('button', { type: 'submit', class: 'primary', 'data-testid': 'start-submit' }, 'Start');

    const explain = () => {
      fill(
        hint,
        isArgv.checked ? 'One argument per line, passed on exactly as written.' : 'A line for the shell: pipes, && and variables work.',
      );
      command.rows = isArgv.checked ? 4 : 1;
      command.placeholder = isArgv.checked ? 'npm\nrun\ndev' : 'npm run dev';
    };
    isArgv.addEventListener('change', explain);
    explain();

    const send = async () => {
      why.clear();
      submit.disabled = true;
      try {
        const options: StartOptions = { ...what(), tty: isTerminal.checked };
        if (cwd.value.trim()) options.cwd = cwd.value.trim();
        if (tag.value.trim()) options.tag = tag.value.trim();
        const variables = readEnv(env.value);
        if (Object.keys(variables).length > 0) options.env = variables;
        const { id } = await console.outlive.start(options);
        close();
        await console.openStarted(id, where);
      } catch (error) {
        why.say(error);
      } finally {
        submit.disabled = false;
      }
    };
    const what = (): Pick<StartOptions, 'command' | 'args' | 'shell'> => {
      if (!isArgv.checked) return { command: command.value.trim(), shell: true };
      const [program = '', ...args] = readArgv(command.value);
      return { command: program, args };
    };
    const form = element(
      'form',
      {
        class: 'fields',
        onsubmit: (event: Event) => {
          event.preventDefault();
          void send();
        },
        onkeydown: (event: KeyboardEvent) => {
          // In a command line Enter starts it; elsewhere Ctrl-Enter does.
          const isLine = event.target === command && !isArgv.checked && !event.shiftKey;
          if (event.key !== 'Enter' || !(isLine || event.ctrlKey || event.metaKey)) return;
          event.preventDefault();
          form.requestSubmit();
        },
      },
      labelled('Command', command),
      element(
        'div',
        { class: 'checks' },
        element('label', {}, isTerminal, ' Terminal'),
        element('label', {}, isArgv, ' Arguments one by one'),
        hint,
      ),
      element('div', { class: 'pair' }, labelled('Tag', tag, 'optional'), labelled('Folder', cwd, 'optional')),
      labelled('Variables', env, 'NAME=value, one per line'),
      why.element,
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
