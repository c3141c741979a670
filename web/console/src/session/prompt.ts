import { element, setText } from '../page/element.js';

const MAX_ROWS = 8;

export interface PromptActions {
  run(command: string): void;
  /** Called for Ctrl-C. */
  interrupt(): void;
}

/** The input for the next command, with a history. */
export class Prompt {
  readonly element: HTMLElement;
  readonly #input = element('textarea', {
    rows: 1,
    'aria-label': 'Command',
    placeholder: 'Command',
    autocapitalize: 'off',
    spellcheck: 'false',
    class: 'mono',
    'data-testid': 'session-command',
  });
  readonly #directory = element('span', { class: 'prompt-directory mono' });
  readonly #history: string[] = [];
  readonly #actions: PromptActions;
  /** Index of the shown history entry; the length of the history for a new command. */
  #historyIndex = 0;

  constructor(actions: PromptActions) {
    this.#actions = actions;
    this.element = element('div', { class: 'prompt' }, this.#directory, this.#input);
    this.#input.addEventListener('input', () => {
      this.#input.rows = Math.min(MAX_ROWS, this.#input.value.split('\n').length);
    });
    this.#input.addEventListener('keydown', (event) => this.#onKey(event));
  }

  focus(): void {
    this.#input.focus();
  }

  addToHistory(command: string): void {
    this.#historyIndex = this.#history.push(command);
  }

  showDirectory(directory: string | null | undefined): void {
    setText(this.#directory, directory ? `${directory} $` : '$');
  }

  #onKey(event: KeyboardEvent): void {
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
      this.#historyIndex = Math.max(0, Math.min(this.#history.length, this.#historyIndex + step));
      this.#input.value = this.#history[this.#historyIndex] ?? '';
    }
  }

  #run(command: string): void {
    if (command.trim() === '') return;
    this.#input.value = '';
    this.#input.rows = 1;
    this.addToHistory(command);
    this.#actions.run(command);
  }
}
