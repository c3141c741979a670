import { element, setText } from '../page/element.js';

const MOST_ROWS = 8;

export interface PromptActions {
  run(command: string): void;
  /** Ctrl-C. */
  interrupt(): void;
}

/** A line for the next command, which knows those before it. */
export class Prompt {
  readonly element: HTMLElement;
  readonly #input = element('textarea', {
    rows: 1,
    'aria-label': 'Command',
    placeholder: 'a command',
    autocapitalize: 'off',
    spellcheck: 'false',
    class: 'mono',
    'data-testid': 'session-command',
  });
  readonly #where = element('span', { class: 'where mono' });
  readonly #past: string[] = [];
  readonly #actions: PromptActions;
  #at = 0;

  constructor(actions: PromptActions) {
    this.#actions = actions;
    this.element = element('div', { class: 'prompt' }, this.#where, this.#input);
    this.#input.addEventListener('input', () => (this.#input.rows = Math.min(MOST_ROWS, this.#input.value.split('\n').length)));
    this.#input.addEventListener('keydown', (event) => this.#key(event));
  }

  focus(): void {
    this.#input.focus();
  }

  remember(command: string): void {
    this.#at = this.#past.push(command);
  }

  showFolder(folder: string | null | undefined): void {
    setText(this.#where, folder ? `${folder} $` : '$');
  }

  #key(event: KeyboardEvent): void {
    const { value, selectionStart, selectionEnd } = this.#input;
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (event.key === 'Enter' && !event.shiftKey) {
      event.preventDefault();
      this.#run(value);
    } else if (event.key === 'c' && event.ctrlKey && selectionStart === selectionEnd) {
      event.preventDefault();
      this.#actions.interrupt();
    } else if (step !== undefined && !value.includes('\n')) {
      event.preventDefault();
      this.#at = Math.max(0, Math.min(this.#past.length, this.#at + step));
      this.#input.value = this.#past[this.#at] ?? '';
    }
  }

  #run(command: string): void {
    if (command.trim() === '') return;
    this.#input.value = '';
    this.#input.rows = 1;
    this.remember(command);
    this.#actions.run(command);
  }
}
