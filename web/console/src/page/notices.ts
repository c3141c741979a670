import { OutliveError } from '@outlive/client';
import { element } from './element.js';
import { icon } from './icons.js';

const SHOWN_MS = 8_000;

/** Sentences in a corner: what the server refused, what was done. */
export class Notices {
  readonly element = element('div', { class: 'notices', role: 'status', 'aria-live': 'polite' });

  say(text: string, kind: 'done' | 'failed' = 'done', code?: string): void {
    const notice = element(
      'div',
      { class: `notice ${kind}`, 'data-testid': 'notice' },
      element('p', {}, text, code ? element('code', {}, code) : null),
      element('button', { class: 'quiet icon-only', 'aria-label': 'Dismiss', onclick: () => notice.remove() }, icon('close')),
    );
    this.element.append(notice);
    setTimeout(() => notice.remove(), SHOWN_MS);
  }

  /** With the server's own sentence. */
  failed(error: unknown): void {
    if (error instanceof OutliveError) this.say(error.message, 'failed', error.code);
    else this.say(error instanceof Error ? error.message : String(error), 'failed');
  }

  /** Does it, and says what went wrong. Answers whether it went well. */
  async try(what: () => Promise<unknown>): Promise<boolean> {
    try {
      await what();
      return true;
    } catch (error) {
      this.failed(error);
      return false;
    }
  }
}
