import { shortcut } from '../commands/command.js';
import type { Console } from '../console.js';
import type { Direction } from '../layout/tree.js';
import { element, fill } from '../page/element.js';
import { displayCommand, processTitle, statusClass, statusLabel } from '../state/format.js';

interface Entry {
  title: string;
  detail: string;
  /** Searched but not shown. */
  keywords: string;
  status?: string;
  run(): void;
}

const MAX_ENTRIES_SHOWN = 50;

/**
 * Finds processes, sessions and commands by typing. With `direction`, the chosen entry opens in a new pane beside the
 * focused one, and commands are left out.
 */
export function openPalette(console: Console, direction?: Direction): void {
  const entries = createEntries(console, direction);
  const label = direction ? 'Open in new pane' : 'Find';
  const input = element('input', {
    role: 'combobox',
    'aria-expanded': 'true',
    'aria-controls': 'palette-list',
    'aria-label': label,
    placeholder: direction ? 'Open in new pane: terminal, process, session' : 'Find processes, sessions, commands',
    autocomplete: 'off',
    spellcheck: 'false',
    'data-testid': 'palette-input',
  });
  const list = element('ul', { role: 'listbox', id: 'palette-list', 'aria-label': 'Results' });
  const dialog = element('dialog', { class: 'palette', 'aria-label': label, 'data-testid': 'palette' }, input, list);
  let matches: Entry[] = [];
  let selected = 0;

  const choose = (entry: Entry | undefined) => {
    if (!entry) return;
    dialog.close();
    entry.run();
  };
  const select = (index: number) => {
    selected = index;
    [...list.children].forEach((row, at) => row.setAttribute('aria-selected', String(at === selected)));
    input.setAttribute('aria-activedescendant', `palette-${selected}`);
    list.children[selected]?.scrollIntoView({ block: 'nearest' });
  };
  const draw = () => {
    matches = findEntries(entries, input.value);
    const rows = matches.map((entry, index) =>
      element(
        'li',
        { role: 'option', id: `palette-${index}`, onclick: () => choose(entry), onpointermove: () => select(index) },
        element('span', { class: `dot ${entry.status ?? 'absent'}` }),
        element('span', { class: 'row-title' }, entry.title),
        element('span', { class: 'detail' }, entry.detail),
      ),
    );
    fill(list, ...rows, rows.length === 0 ? element('li', { class: 'none' }, 'No matches') : null);
    select(Math.max(0, Math.min(selected, matches.length - 1)));
  };
  input.addEventListener('input', () => {
    selected = 0;
    draw();
  });
  input.addEventListener('keydown', (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && matches.length > 0) {
      event.preventDefault();
      select((selected + step + matches.length) % matches.length);
    } else if (event.key === 'Enter') {
      event.preventDefault();
      choose(matches[selected]);
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

/** Entries that contain every word of the query, best matches first. */
function findEntries(entries: Entry[], query: string): Entry[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const text = ({ title, detail, keywords }: Entry) => `${title} ${detail} ${keywords}`.toLowerCase();
  return entries
    .filter((entry) => words.every((word) => text(entry).includes(word)))
    .toSorted((one, other) => rank(one, words) - rank(other, words))
    .slice(0, MAX_ENTRIES_SHOWN);
}

/** Exact titles come first, then titles that start with the query, then all others. */
function rank({ title }: Entry, words: string[]): number {
  const [name, query] = [title.toLowerCase(), words.join(' ')];
  if (name === query) return 0;
  return name.startsWith(query) ? 1 : 2;
}

function createEntries(console: Console, direction: Direction | undefined): Entry[] {
  const where = direction ?? 'tab';
  const processes = console.processes.all().map(
    (process): Entry => ({
      title: processTitle(process),
      detail: `${statusLabel(process)} · ${displayCommand(process)}`,
      keywords: `process ${process.id}`,
      status: statusClass(process),
      run: () => console.openProcess(process.id, where),
    }),
  );
  const sessions = console.sessions.all().map(
    (session): Entry => ({
      title: session.id,
      detail: `session · ${session.status}`,
      keywords: 'session',
      status: 'session',
      run: () => console.workspace.open({ kind: 'session', id: session.id }, where),
    }),
  );
  if (direction) {
    const actions: Entry[] = [
      { title: 'New terminal', detail: 'shell', keywords: 'command', run: () => void console.openShell(where) },
      { title: 'Start process…', detail: '', keywords: 'command', run: () => console.startProcess(where) },
    ];
    return [...actions, ...processes, ...sessions];
  }
  const commands = console.commands
    .filter((command) => command.isListed !== false && (command.isEnabled?.() ?? true))
    .map((command): Entry => {
      return { title: command.title, detail: shortcut(command) ?? '', keywords: 'command', run: () => command.run() };
    });
  return [
    ...processes.filter(({ status }) => status === 'running'),
    ...sessions,
    ...commands,
    ...processes.filter(({ status }) => status !== 'running'),
  ];
}
