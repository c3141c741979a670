import { openDialog } from '../page/dialog.js';
import { element } from '../page/element.js';

/** Asks for confirmation before an action that cannot be undone. */
export function confirm(question: string, explanation: string, verb: string, action: () => unknown): void {
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
          void action();
        },
      },
      verb,
    );
    const cancel = element('button', { type: 'button', onclick: close }, 'Cancel');
    return [element('p', {}, explanation), element('footer', {}, cancel, yes)];
  });
}
