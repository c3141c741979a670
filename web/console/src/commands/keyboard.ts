/** The keys that run commands of the console: plain keys, and those after the prefix. */

import { element, fill } from '../page/element.js';
import { type Command, keyLabel, PREFIX, shortcut } from './command.js';

/** A key later than this after the prefix goes to the terminal again. */
const PREFIX_TIMEOUT_MS = 4_000;

/** Handles keys without the prefix, outside of terminals, input fields and dialogs. */
export function listenForPlainKeys(commands: Command[], signal: AbortSignal): void {
  addEventListener(
    'keydown',
    (event) => {
      if (event.defaultPrevented || event.altKey) return;
      const target = event.target as Element | null;
      const takesInput = target?.closest('input, textarea, select, dialog, [popover], .screen');
      if (takesInput) return;
      const key = (event.ctrlKey || event.metaKey ? 'Ctrl-' : '') + event.key;
      const command = commands.find(({ plainKey }) => plainKey === key);
      if (!command) return;
      event.preventDefault();
      command.run();
    },
    { signal },
  );
}

/**
 * Terminals receive every key except the prefix and the key after it. That key runs a command, or nothing if it has
 * none. Only a second prefix goes to the terminal.
 */
export class PrefixKey {
  /** The hint that lists the available commands. */
  readonly element = element('div', { class: 'prefix-hint', role: 'status', hidden: true });
  readonly #commands: () => Command[];
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(commands: () => Command[], signal: AbortSignal) {
    this.#commands = commands;
    // The capture phase comes before the terminal's own listener.
    addEventListener('keydown', (event) => this.#onKey(event), { capture: true, signal });
  }

  #onKey(event: KeyboardEvent): void {
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
    // The second prefix is not swallowed: the terminal receives it.
    if (isPrefix(event)) return;
    swallow(event);
    const command = this.#commands().find(({ keys }) => keys.includes(event.key));
    if (command && (command.isEnabled?.() ?? true)) command.run();
  }

  #arm(): void {
    this.#timer = setTimeout(() => this.#disarm(), PREFIX_TIMEOUT_MS);
    const listed = this.#commands().filter(
      (command) => command.keys.length > 0 && command.isListed !== false && (command.isEnabled?.() ?? true),
    );
    const hint = ({ keys, title }: Command) => element('span', {}, element('kbd', {}, keyLabel(keys[0]!)), ` ${title}`);
    fill(
      this.element,
      element('strong', {}, PREFIX),
      ...listed.map(hint),
      element('span', {}, element('kbd', {}, '← ↑ ↓ →'), ' Focus pane'),
    );
    this.element.hidden = false;
    this.element.title = listed.map((command) => shortcut(command)).join(', ');
  }

  #disarm(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.element.hidden = true;
  }
}

function isPrefix(event: KeyboardEvent): boolean {
  const hasOnlyCtrl = event.ctrlKey && !event.altKey && !event.metaKey && !event.shiftKey;
  // On layouts where \ needs AltGr, the physical key is accepted.
  return hasOnlyCtrl && (event.key === '\\' || event.code === 'Backslash');
}

function swallow(event: KeyboardEvent): void {
  event.preventDefault();
  event.stopImmediatePropagation();
}
