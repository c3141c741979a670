import { OutliveError } from '@outlive/client';
import { element, fill } from './element.js';

/** An input with a label above it. */
export function labelled(label: string, input: HTMLElement, hint = ''): HTMLElement {
  const hintElement = hint ? element('span', { class: 'hint' }, hint) : null;
  return element('label', { class: 'field' }, element('span', {}, label, hintElement), input);
}

export interface ErrorLine {
  element: HTMLElement;
  show(error: unknown): void;
  clear(): void;
}

/** A line for an error message, with the server's error code if the server sent it. */
export function errorLine(): ErrorLine {
  const line = element('p', { class: 'error-line', role: 'alert' });
  return {
    element: line,
    show: (error) => {
      const code = error instanceof OutliveError ? element('code', {}, error.code) : null;
      fill(line, error instanceof Error ? error.message : String(error), code);
    },
    clear: () => fill(line),
  };
}
