import type { ProcessInfo } from '@outlive/client';
import type { Console } from '../console.js';
import { showAge } from '../live/clock.js';
import { shownLine, moodOf, sinceMs, stateOf, titleOf } from '../live/words.js';
import { element, fill } from '../page/element.js';
import { icon } from '../page/icons.js';
import { openMenu } from '../page/menu.js';
import { iconButton } from '../panes/frame.js';
import { processMenu } from './process_menu.js';

/** More would only be scrolled past; the filter finds them. */
const MOST_ENDED = 100;

/** All processes, kept true by events. Arrow keys move in it. */
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
  readonly #ended = element('ul', { class: 'rows', 'aria-label': 'Ended processes', 'data-testid': 'ended' });
  readonly #rows = new Map<string, { drawnFor: ProcessInfo; element: HTMLElement }>();
  #isDue = false;

  constructor(console: Console) {
    this.#console = console;
    this.element = element('div', { class: 'process-list' }, this.#running, element('h3', {}, 'Ended'), this.#ended);
    this.element.addEventListener('keydown', (event) => this.#step(event));
    this.filter.addEventListener('input', () => this.#soon());
    this.filter.addEventListener('keydown', (event) => {
      if (event.key === 'ArrowDown' || event.key === 'Enter') this.#buttons()[0]?.focus();
    });
    console.processes.onChange(() => this.#soon());
    console.workspace.onFocusChange(() => this.#mark());
  }

  focus(): void {
    (this.#buttons()[0] ?? this.filter).focus();
  }

  /** Many events at once are one drawing. */
  #soon(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    requestAnimationFrame(() => {
      this.#isDue = false;
      this.#draw();
    });
  }

  #draw(): void {
    const wanted = this.filter.value.trim().toLowerCase();
    const matches = (process: ProcessInfo) =>
      !wanted || `${process.id} ${process.tag ?? ''} ${process.label ?? ''} ${shownLine(process)}`.toLowerCase().includes(wanted);
    const all = this.#console.processes.all().filter(matches);
    const ended = all.filter(({ status }) => status === 'exited').sort((one, other) => sinceMs(other) - sinceMs(one));
    const running = all.filter(({ status }) => status !== 'exited');
    const none = element('li', { class: 'none' }, wanted ? 'Nothing like that runs.' : 'Nothing runs.');
    const hadFocus = document.activeElement;
    place(this.#running, running.length > 0 ? running.map((process) => this.#row(process)) : [none]);
    place(
      this.#ended,
      ended.slice(0, MOST_ENDED).map((process) => this.#row(process)),
    );
    if (hadFocus instanceof HTMLElement && hadFocus !== document.activeElement && hadFocus.isConnected) hadFocus.focus();
    this.#ended.hidden = ended.length === 0;
    (this.#ended.previousElementSibling as HTMLElement).hidden = ended.length === 0;
    const known = new Set(this.#console.processes.all().map(({ id }) => id));
    for (const id of this.#rows.keys()) if (!known.has(id)) this.#rows.delete(id);
    this.#mark();
  }

  /** Which one is being looked at. */
  #mark(): void {
    const current = this.#console.workspace.focused?.spec.id;
    for (const [id, { element }] of this.#rows) {
      if (id === current) element.setAttribute('aria-current', 'true');
      else element.removeAttribute('aria-current');
    }
  }

  #row(process: ProcessInfo): HTMLElement {
    const drawn = this.#rows.get(process.id);
    if (drawn?.drawnFor === process) return drawn.element;
    const row = drawn?.element ?? element('li', { class: 'row', 'data-id': process.id, 'data-testid': 'process' });
    const focusedAt = row.contains(document.activeElement) ? [...row.children].indexOf(document.activeElement as Element) : -1;
    const title = titleOf(process);
    const line = shownLine(process);
    const since = element('span');
    showAge(since, sinceMs(process));
    const open = element(
      'button',
      { type: 'button', class: 'row-main', title: line, onclick: () => this.#console.openProcess(process.id) },
      element('span', { class: `dot ${moodOf(process)}` }),
      element('span', { class: 'row-title' }, title),
      element('span', { class: 'age' }, process.tty ? icon('command') : null, since),
      element(
        'span',
        { class: 'row-facts' },
        element('span', { class: `state ${moodOf(process)}`, 'data-testid': 'state' }, stateOf(process)),
        process.attachments > 0 ? element('span', {}, `${process.attachments} attached`) : null,
        line === title ? null : element('span', { class: 'mono' }, line),
      ),
    );
    const more = iconButton('more', `Actions for ${title}`, () => openMenu(more, processMenu(this.#console, process.id)), {
      'aria-haspopup': 'menu',
      'data-testid': 'row-menu',
    });
    fill(row, open, more);
    if (focusedAt >= 0) (row.children[focusedAt] as HTMLElement | undefined)?.focus();
    this.#rows.set(process.id, { drawnFor: process, element: row });
    return row;
  }

  #buttons(): HTMLElement[] {
    return [...this.element.querySelectorAll<HTMLElement>('.row-main')];
  }

  #step(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key];
    if (step === undefined) return;
    const buttons = this.#buttons();
    const at = buttons.findIndex((button) => button.parentElement?.contains(document.activeElement));
    event.preventDefault();
    if (at + step < 0) this.filter.focus();
    else buttons[Math.min(at + step, buttons.length - 1)]?.focus();
  }
}

/** Moves only what is not there yet: what has the focus keeps it. */
function place(list: HTMLElement, rows: HTMLElement[]): void {
  rows.forEach((row, at) => {
    if (list.children[at] !== row) list.insertBefore(row, list.children[at] ?? null);
  });
  while (list.children.length > rows.length) list.lastElementChild?.remove();
}
