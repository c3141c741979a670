import { element } from './element.js';
import { icon } from './icons.js';

/** Opens a modal dialog, which is removed when it is closed. `createContent` gets a function that closes it. */
export function openDialog(
  title: string,
  testid: string,
  createContent: (close: () => void) => Node[],
  className = '',
): void {
  const dialog = element('dialog', { class: `dialog ${className}`, 'aria-label': title, 'data-testid': testid });
  const close = () => dialog.close();
  dialog.append(
    element(
      'header',
      {},
      element('h2', {}, title),
      element(
        'button',
        { type: 'button', class: 'quiet icon-only', 'aria-label': 'Close', onclick: close },
        icon('close'),
      ),
    ),
    ...createContent(close),
  );
  // The browser restores the focus itself.
  dialog.addEventListener('close', () => dialog.remove());
  // A click on the backdrop has the dialog itself as its target.
  dialog.addEventListener('pointerdown', (event) => {
    if (event.target === dialog) close();
  });
  document.body.append(dialog);
  dialog.showModal();
}
