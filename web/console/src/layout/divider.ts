import { element } from '../page/element.js';
import type { Divider } from './geometry.js';

const KEY_STEP = 0.03;

/** A divider, moved by dragging or with the arrow keys. `move` gets a fraction of its split. */
export function dividerElement(area: HTMLElement, divider: Divider, move: (by: number) => void): HTMLElement {
  const isRow = divider.direction === 'row';
  const line = element('div', {
    class: `divider ${isRow ? 'vertical' : 'horizontal'}`,
    role: 'separator',
    tabindex: 0,
    'aria-orientation': isRow ? 'vertical' : 'horizontal',
    'aria-label': 'Resize panes',
    'aria-valuenow': Math.round(divider.share * 100),
    'data-testid': 'divider',
    onkeydown: (event: KeyboardEvent) => {
      const steps: Record<string, number> = isRow ? { ArrowLeft: -1, ArrowRight: 1 } : { ArrowUp: -1, ArrowDown: 1 };
      const step = steps[event.key];
      if (step === undefined) return;
      event.preventDefault();
      const index = [...area.querySelectorAll('.divider')].indexOf(line);
      move(step * KEY_STEP);
      // Every move replaces the divider elements.
      area.querySelectorAll<HTMLElement>('.divider')[index]?.focus();
    },
    onpointerdown: (event: PointerEvent) => {
      event.preventDefault();
      const areaLength = isRow ? area.clientWidth : area.clientHeight;
      let last = isRow ? event.clientX : event.clientY;
      const drag = (moved: PointerEvent) => {
        const now = isRow ? moved.clientX : moved.clientY;
        move((now - last) / (areaLength * divider.length));
        last = now;
      };
      const drop = () => {
        document.documentElement.classList.remove('dragging');
        removeEventListener('pointermove', drag);
      };
      // The class disables pointer events on panes; otherwise a terminal would receive them.
      document.documentElement.classList.add('dragging');
      addEventListener('pointermove', drag);
      addEventListener('pointerup', drop, { once: true });
      addEventListener('pointercancel', drop, { once: true });
    },
  });
  line.style.left = `${divider.left * 100}%`;
  line.style.top = `${divider.top * 100}%`;
  if (isRow) line.style.height = `${divider.height * 100}%`;
  else line.style.width = `${divider.width * 100}%`;
  return line;
}
