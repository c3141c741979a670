import { OutliveError } from '@outlive/client';
import { element, fill } from './element.js';

/** A field with its name above it. */
export function labelled(label: string, input: HTMLElement, aside = ''): HTMLElement {
  return element('label', { class: 'field' }, element('span', {}, label, aside ? element('span', { class: 'hint' }, aside) : null), input);
}

/** Where a form says why it was not taken, with the server's code if it was the server. */
export function refusal(): { element: HTMLElement; say(error: unknown): void; clear(): void } {
  const why = element('p', { class: 'refusal', role: 'alert' });
  return {
    element: why,
    say: (error) => {
      const code = error instanceof OutliveError ? element('code', {}, error.code) : null;
      fill(why, error instanceof Error ? error.message : String(error), code);
    },
    clear: () => fill(why),
  };
}
