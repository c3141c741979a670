import { element } from './element.js';

export interface MenuItem {
  label: string;
  run(): void;
  isDangerous?: boolean;
}

/** Opens a menu below or above a button. Arrow keys move, Escape closes. `null` is a separator. */
export function openMenu(button: HTMLElement, items: (MenuItem | null)[]): void {
  const close = () => menu.hidePopover();
  const entries = items.map((item) =>
    item === null
      ? element('hr')
      : element(
          'button',
          {
            type: 'button',
            role: 'menuitem',
            class: item.isDangerous ? 'dangerous' : '',
            onclick: () => {
              close();
              item.run();
            },
          },
          element('span', {}, item.label),
        ),
  );
  const menu = element('div', { class: 'menu', role: 'menu', popover: 'auto', 'data-testid': 'menu' }, ...entries);
  menu.addEventListener('toggle', (event) => {
    if ((event as ToggleEvent).newState !== 'closed') return;
    menu.remove();
    button.setAttribute('aria-expanded', 'false');
    if (document.activeElement === document.body) button.focus();
  });
  menu.addEventListener('keydown', (event) => {
    const buttons = [...menu.querySelectorAll('button')];
    const current = buttons.indexOf(document.activeElement as HTMLButtonElement);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    buttons[(current + step + buttons.length) % buttons.length]?.focus();
  });
  document.body.append(menu);
  menu.showPopover();
  button.setAttribute('aria-expanded', 'true');
  const anchor = button.getBoundingClientRect();
  const { offsetWidth, offsetHeight } = menu;
  const isAbove = anchor.bottom + offsetHeight > innerHeight - 8 && anchor.top > offsetHeight;
  menu.style.left = `${Math.max(8, Math.min(anchor.right - offsetWidth, innerWidth - offsetWidth - 8))}px`;
  menu.style.top = `${isAbove ? anchor.top - offsetHeight - 4 : anchor.bottom + 4}px`;
  menu.querySelector('button')?.focus();
}
