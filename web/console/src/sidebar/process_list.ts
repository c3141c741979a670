import type { ProcessInfo } from '@outlive/client';
import type { Console } from '../console.js';
import { element, fill } from '../page/element.js';
import { icon } from '../page/icons.js';
import { openMenu } from '../page/menu.js';
import { iconButton } from '../panes/frame.js';
import { showAge } from '../state/clock.js';
import { displayCommand, processTitle, statusClass, statusLabel, statusSinceMs } from '../state/format.js';
import { processMenu } from './process_menu.js';

/** Older exited processes are only reachable with the filter. */
const MAX_EXITED_SHOWN = 100;

/** The list of all processes, updated by events. Arrow keys move the focus. */
export class ProcessList {
  readonly element: HTMLElement;
  readonly filter = element('input', {
    type: 'search',
    placeholder: 'Filter',
    'aria-label': 'Filter processes',
    'data-testid': 'filter',
    spellcheck: 'false',
    autocomplete: 'off',
  });
  readonly #console: Console;
  readonly #running = element('ul', { class: 'rows', 'aria-label': 'Running processes', 'data-testid': 'running' });
  readonly #exited = element('ul', { class: 'rows', 'aria-label': 'Exited processes', 'data-testid': 'exited' });
  readonly #rows = new Map<string, { process: ProcessInfo; element: HTMLElement }>();
  #isDrawScheduled = false;

  constructor(console: Console) {
    this.#console = console;
    this.element = element('div', { class: 'process-list' }, this.#running, element('h3', {}, 'Exited'), this.#exited);
    this.element.addEventListener('keydown', (event) => this.#onKey(event));
    this.filter.addEventListener('input', () => this.#scheduleDraw());
    this.filter.addEventListener('keydown', (event) => {
      if (event.key === 'ArrowDown' || event.key === 'Enter') this.#buttons()[0]?.focus();
    });
    console.processes.onChange(() => this.#scheduleDraw());
    console.workspace.onFocusChange(() => this.#markCurrent());
  }

  focus(): void {
    (this.#buttons()[0] ?? this.filter).focus();
  }

  /** Many events cause one redraw. */
  #scheduleDraw(): void {
    if (this.#isDrawScheduled) return;
    this.#isDrawScheduled = true;
    requestAnimationFrame(() => {
      this.#isDrawScheduled = false;
      this.#draw();
    });
  }

  #draw(): void {
    const query = this.filter.value.trim().toLowerCase();
    const matches = (process: ProcessInfo) => !query || searchText(process).includes(query);
    const all = this.#console.processes.all().filter(matches);
    const exited = all
      .filter(({ status }) => status === 'exited')
      .sort((one, other) => statusSinceMs(other) - statusSinceMs(one));
    const running = all.filter(({ status }) => status !== 'exited');
    const none = element('li', { class: 'none' }, query ? 'No matching processes' : 'No running processes');
    const focused = document.activeElement;
    updateRows(this.#running, running.length > 0 ? running.map((process) => this.#row(process)) : [none]);
    updateRows(
      this.#exited,
      exited.slice(0, MAX_EXITED_SHOWN).map((process) => this.#row(process)),
    );
    if (focused instanceof HTMLElement && focused !== document.activeElement && focused.isConnected) focused.focus();
    this.#exited.hidden = exited.length === 0;
    (this.#exited.previousElementSibling as HTMLElement).hidden = exited.length === 0;
    const ids = new Set(this.#console.processes.all().map(({ id }) => id));
    for (const id of this.#rows.keys()) if (!ids.has(id)) this.#rows.delete(id);
    this.#markCurrent();
  }

  /** Marks the process of the focused pane. */
  #markCurrent(): void {
    const current = this.#console.workspace.focused?.spec.id;
    for (const [id, { element }] of this.#rows) {
      if (id === current) element.setAttribute('aria-current', 'true');
      else element.removeAttribute('aria-current');
    }
  }

  #row(process: ProcessInfo): HTMLElement {
    const drawn = this.#rows.get(process.id);
    if (drawn?.process === process) return drawn.element;
    const row = drawn?.element ?? element('li', { class: 'row', 'data-id': process.id, 'data-testid': 'process' });
    const focusedAt = row.contains(document.activeElement)
      ? [...row.children].indexOf(document.activeElement as Element)
      : -1;
    fillRow(this.#console, row, process);
    if (focusedAt >= 0) (row.children[focusedAt] as HTMLElement | undefined)?.focus();
    this.#rows.set(process.id, { process, element: row });
    return row;
  }

  #buttons(): HTMLElement[] {
    return [...this.element.querySelectorAll<HTMLElement>('.row-main')];
  }

  #onKey(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key];
    if (step === undefined) return;
    const buttons = this.#buttons();
    const current = buttons.findIndex((button) => button.parentElement?.contains(document.activeElement));
    event.preventDefault();
    if (current + step < 0) this.filter.focus();
    else buttons[Math.min(current + step, buttons.length - 1)]?.focus();
  }
}

/** Draws a process into its row. */
export function fillRow(console: Console, row: HTMLElement, process: ProcessInfo): void {
  const title = processTitle(process);
  const command = displayCommand(process);
  const since = element('span');
  showAge(since, statusSinceMs(process));
  const open = element(
    'button',
    { type: 'button', class: 'row-main', title: command, onclick: () => console.openProcess(process.id) },
    element('span', { class: `dot ${statusClass(process)}` }),
    element('span', { class: 'row-title' }, title),
    element('span', { class: 'age' }, process.tty ? icon('command') : null, since),
    element(
      'span',
      { class: 'row-facts' },
      element('span', { class: `state ${statusClass(process)}`, 'data-testid': 'state' }, statusLabel(process)),
      process.attachments > 0 ? element('span', {}, `${process.attachments} attached`) : null,
      command === title ? null : element('span', { class: 'mono' }, command),
    ),
  );
  const more = iconButton('more', `Actions for ${title}`, () => openMenu(more, processMenu(console, process.id)), {
    'aria-haspopup': 'menu',
    'data-testid': 'row-menu',
  });
  fill(row, open, more);
}

function searchText(process: ProcessInfo): string {
  return `${process.id} ${process.tag ?? ''} ${process.label ?? ''} ${displayCommand(process)}`.toLowerCase();
}

/** Moves only rows that are out of place: moving an element takes its focus away. */
function updateRows(list: HTMLElement, rows: HTMLElement[]): void {
  rows.forEach((row, at) => {
    if (list.children[at] !== row) list.insertBefore(row, list.children[at] ?? null);
  });
  while (list.children.length > rows.length) list.lastElementChild?.remove();
}
