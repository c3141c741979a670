import { element, fill } from '../page/element.js';
import { type Command, keyName, PREFIX, shortcut } from './command.js';

/** What comes after the prefix later than this belongs to the terminal again. */
const ARMED_MS = 4_000;

/**
 * The only key that is taken from a terminal is the prefix. The one after it is a command; the prefix twice is typed once; any other key
 * is let go.
 */
export class Prefix {
  readonly element = element('div', { class: 'prefix-hint', role: 'status', hidden: true });
  readonly #commands: () => Command[];
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(commands: () => Command[], signal: AbortSignal) {
    this.#commands = commands;
    // Before the terminal sees it.
    addEventListener('keydown', (event) => this.#key(event), { capture: true, signal });
  }

  #key(event: KeyboardEvent): void {
    if (document.querySelector('dialog[open]')) return this.#disarm();
    if (this.#timer === undefined) {
      if (isPrefix(event)) {
        swallow(event);
        this.#arm();
      }
      return;
    }
    if (['Control', 'Shift', 'Alt', 'Meta', 'AltGraph'].includes(event.key)) return;
    this.#disarm();
    // Twice: once for the program.
    if (isPrefix(event)) return;
    swallow(event);
    const found = this.#commands().find((command) => command.keys.includes(event.key));
    if (found && (found.isPossible?.() ?? true)) found.run();
  }

  #arm(): void {
    this.#timer = setTimeout(() => this.#disarm(), ARMED_MS);
    const shown = this.#commands().filter(
      (command) => command.keys.length > 0 && command.isListed !== false && (command.isPossible?.() ?? true),
    );
    fill(
      this.element,
      element('strong', {}, PREFIX),
      ...shown.map((command) => element('span', {}, element('kbd', {}, keyName(command.keys[0]!)), ` ${command.title}`)),
      element('span', {}, element('kbd', {}, '← ↑ ↓ →'), ' Pane to that side'),
    );
    this.element.hidden = false;
    this.element.title = shown.map((command) => shortcut(command)).join(', ');
  }

  #disarm(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.element.hidden = true;
  }
}

function isPrefix(event: KeyboardEvent): boolean {
  // The key itself too: where \ needs AltGr it is written otherwise.
  return event.ctrlKey && !event.altKey && !event.metaKey && !event.shiftKey && (event.key === '\\' || event.code === 'Backslash');
}

function swallow(event: KeyboardEvent): void {
  event.preventDefault();
  event.stopImmediatePropagation();
}
