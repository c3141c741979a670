import { shortcut } from '../commands/command.js';
import type { Console } from '../console.js';
import { shownLine, moodOf, stateOf, titleOf } from '../live/words.js';
import { element, fill } from '../page/element.js';
import type { Direction } from '../layout/tree.js';

interface Choice {
  title: string;
  aside: string;
  kind: string;
  mood?: string;
  run(): void;
}

const MOST_SHOWN = 50;

/** Everything there is, found by typing. With `beside`, what is chosen opens beside the focused pane, and commands are left out. */
export function openPalette(console: Console, beside?: Direction): void {
  const all = choices(console, beside);
  const input = element('input', {
    role: 'combobox',
    'aria-expanded': 'true',
    'aria-controls': 'palette-list',
    'aria-label': beside ? 'What to open beside' : 'Find anything',
    placeholder: beside ? 'Open beside: a new terminal, a process, a session' : 'A process, a session, a command',
    autocomplete: 'off',
    spellcheck: 'false',
    'data-testid': 'palette-input',
  });
  const list = element('ul', { role: 'listbox', id: 'palette-list', 'aria-label': 'Found' });
  const dialog = element(
    'dialog',
    { class: 'palette', 'aria-label': beside ? 'Open beside' : 'Find anything', 'data-testid': 'palette' },
    input,
    list,
  );
  let shown: Choice[] = [];
  let at = 0;

  const choose = (choice: Choice | undefined) => {
    if (!choice) return;
    dialog.close();
    choice.run();
  };
  const draw = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    shown = all
      .filter(({ title, aside, kind }) => words.every((word) => `${title} ${aside} ${kind}`.toLowerCase().includes(word)))
      .toSorted((one, other) => rank(one, words) - rank(other, words))
      .slice(0, MOST_SHOWN);
    at = Math.max(0, Math.min(at, shown.length - 1));
    fill(
      list,
      ...shown.map((choice, index) =>
        element(
          'li',
          {
            role: 'option',
            id: `palette-${index}`,
            'aria-selected': String(index === at),
            onclick: () => choose(choice),
            onpointermove: () => mark(index),
          },
          element('span', { class: `dot ${choice.mood ?? 'absent'}` }),
          element('span', { class: 'row-title' }, choice.title),
          element('span', { class: 'aside' }, choice.aside),
        ),
      ),
      shown.length === 0 ? element('li', { class: 'none' }, 'Nothing is called that.') : null,
    );
    mark(at);
  };
  const mark = (index: number) => {
    at = index;
    [...list.children].forEach((row, index) => row.setAttribute('aria-selected', String(index === at)));
    input.setAttribute('aria-activedescendant', `palette-${at}`);
    list.children[at]?.scrollIntoView({ block: 'nearest' });
  };
  input.addEventListener('input', () => {
    at = 0;
    draw();
  });
  input.addEventListener('keydown', (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && shown.length > 0) {
      event.preventDefault();
      mark((at + step + shown.length) % shown.length);
    } else if (event.key === 'Enter') {
      event.preventDefault();
      choose(shown[at]);
    }
  });
  dialog.addEventListener('close', () => dialog.remove());
  dialog.addEventListener('pointerdown', (event) => {
    if (event.target === dialog) dialog.close();
  });
  document.body.append(dialog);
  draw();
  dialog.showModal();
}

/** What is called so comes before what begins so, and that before what has it anywhere. */
function rank({ title }: Choice, words: string[]): number {
  const [name, wanted] = [title.toLowerCase(), words.join(' ')];
  if (name === wanted) return 0;
  return name.startsWith(wanted) ? 1 : 2;
}

function choices(console: Console, beside: Direction | undefined): Choice[] {
  const where = beside ?? 'tab';
  const processes = console.processes.all().map(
    (process): Choice => ({
      title: titleOf(process),
      aside: `${stateOf(process)} · ${shownLine(process)}`,
      kind: `process ${process.id}`,
      mood: moodOf(process),
      run: () => console.openProcess(process.id, where),
    }),
  );
  const sessions = console.sessions.known.map(
    (session): Choice => ({
      title: session.id,
      aside: `session · ${session.status}`,
      kind: 'session',
      mood: 'session',
      run: () => console.workspace.open({ kind: 'session', id: session.id }, where),
    }),
  );
  const fresh: Choice[] = [
    { title: 'New terminal', aside: 'a shell', kind: 'command', run: () => void console.openShell(where) },
    { title: 'Start a process…', aside: '', kind: 'command', run: () => console.startProcess(where) },
  ];
  if (beside) return [...fresh, ...processes, ...sessions];
  const commands = console.commands
    .filter((command) => command.isListed !== false && (command.isPossible?.() ?? true))
    .map((command): Choice => ({ title: command.title, aside: shortcut(command) ?? '', kind: 'command', run: () => command.run() }));
  return [
    ...processes.filter(({ mood }) => mood === 'running'),
    ...sessions,
    ...commands,
    ...processes.filter(({ mood }) => mood !== 'running'),
  ];
}
