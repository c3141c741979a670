import type { Console } from '../console.js';
import { shareLink } from '../access/fragment.js';
import { openDialog } from '../page/dialog.js';
import { element, fill, setText } from '../page/element.js';

/** A link for one person: it shows the terminal, types nothing, and needs no token. */
export function openShare(console: Console, id: string): void {
  openDialog('Share read-only', 'share', (close) => {
    const link = element('input', {
      readonly: true,
      'aria-label': 'Link',
      class: 'mono',
      'data-testid': 'share-link',
      onfocus: () => link.select(),
    });
    const left = element('p', { class: 'hint', role: 'status' });
    const again = element('button', { type: 'button', onclick: () => void make() }, 'New link');
    const copy = element(
      'button',
      { type: 'button', class: 'primary', onclick: () => void console.notices.try(() => console.copy(link.value)) },
      'Copy link',
    );
    let timer: ReturnType<typeof setInterval> | undefined;

    async function make(): Promise<void> {
      clearInterval(timer);
      link.value = '';
      const isMade = await console.notices.try(async () => {
        const { ticket, expiresInMs } = await console.outlive.process(id).ticket('viewer');
        link.value = shareLink(location.origin + location.pathname, ticket, id);
        const endsAt = Date.now() + expiresInMs;
        const count = () => {
          const seconds = Math.ceil((endsAt - Date.now()) / 1000);
          setText(left, seconds > 0 ? `Good for ${seconds} s more, and for one opening.` : 'Too late for this one: make a new link.');
          copy.disabled = seconds <= 0;
          link.disabled = seconds <= 0;
          if (seconds <= 0 || !left.isConnected) clearInterval(timer);
        };
        timer = setInterval(count, 500);
        count();
      });
      if (!isMade) close();
      else link.select();
    }

    void make();
    const what = element('p');
    fill(
      what,
      'Whoever opens this link sees the terminal, can read what was printed there before, and cannot type. It works ',
      element('strong', {}, 'once'),
      ', within ',
      element('strong', {}, '60 seconds'),
      '; what it shows stays open until the page is closed or the connection is lost.',
    );
    return [what, link, left, element('footer', {}, again, copy)];
  });
}
