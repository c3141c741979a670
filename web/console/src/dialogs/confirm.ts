import { openDialog } from '../page/dialog.js';
import { element } from '../page/element.js';

/** Asks before something that cannot be undone. */
export function confirm(question: string, explanation: string, verb: string, act: () => unknown): void {
  openDialog(question, 'confirm', (close) => {
    const yes = element(
      'button',
      {
        type: 'button',
        class: 'primary dangerous',
        autofocus: true,
        'data-testid': 'confirm-yes',
        onclick: () => {
          close();
          void act();
        },
      },
      verb,
    );
    return [element('p', {}, explanation), element('footer', {}, element('button', { type: 'button', onclick: close }, 'Cancel'), yes)];
  });
}
