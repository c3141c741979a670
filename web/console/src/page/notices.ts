import { OutliveError } from '@outlive/client';
import { element } from './element.js';
import { icon } from './icons.js';

const SHOWN_MS = 8_000;

/** Messages in a corner of the page. */
export class Notices {
  readonly element = element('div', { class: 'notices', role: 'status', 'aria-live': 'polite' });

  show(text: string, kind: 'done' | 'failed' = 'done', code?: string): void {
    const notice = element(
      'div',
      { class: `notice ${kind}`, 'data-testid': 'notice' },
      element('p', {}, text, code ? element('code', {}, code) : null),
      element(
        'button',
        { class: 'quiet icon-only', 'aria-label': 'Dismiss', onclick: () => notice.remove() },
        icon('close'),
      ),
    );
    this.element.append(notice);
    setTimeout(() => notice.remove(), SHOWN_MS);
  }

  showError(error: unknown): void {
    if (error instanceof OutliveError) this.show(error.message, 'failed', error.code);
    else this.show(error instanceof Error ? error.message : String(error), 'failed');
  }

  /** Runs `action` and shows its error. Resolves with whether it succeeded. */
  async attempt(action: () => Promise<unknown>): Promise<boolean> {
    try {
      await action();
      return true;
    } catch (error) {
      this.showError(error);
      return false;
    }
  }
}
