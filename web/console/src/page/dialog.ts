import { element } from './element.js';
import { icon } from './icons.js';

/** A modal dialog that is gone when it is closed. `fillIn` gets what closes it. */
export function openDialog(title: string, testid: string, fillIn: (close: () => void) => Node[], className = ''): void {
  const dialog = element('dialog', { class: `dialog ${className}`, 'aria-label': title, 'data-testid': testid });
  const close = () => dialog.close();
  dialog.append(
    element(
      'header',
      {},
      element('h2', {}, title),
      element('button', { type: 'button', class: 'quiet icon-only', 'aria-label': 'Close', onclick: close }, icon('close')),
    ),
    ...fillIn(close),
  );
  // The focus goes back by itself to where it was.
  dialog.addEventListener('close', () => dialog.remove());
  // A click beside it.
  dialog.addEventListener('pointerdown', (event) => {
    if (event.target === dialog) close();
  });
  document.body.append(dialog);
  dialog.showModal();
}
