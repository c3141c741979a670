import { element } from '../page/element.js';
import type { Divider } from './places.js';

const KEY_STEP = 0.03;

/** A line to drag, or to move with the arrow keys. `move` is told by what part of its split. */
export function dividerElement(area: HTMLElement, divider: Divider, move: (by: number) => void): HTMLElement {
  const isRow = divider.direction === 'row';
  const line = element('div', {
    class: `divider ${isRow ? 'upright' : 'level'}`,
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
      const id = [...area.querySelectorAll('.divider')].indexOf(line);
      move(step * KEY_STEP);
      // Every move draws the lines anew.
      area.querySelectorAll<HTMLElement>('.divider')[id]?.focus();
    },
    onpointerdown: (event: PointerEvent) => {
      event.preventDefault();
      const whole = isRow ? area.clientWidth : area.clientHeight;
      let last = isRow ? event.clientX : event.clientY;
      const drag = (moved: PointerEvent) => {
        const now = isRow ? moved.clientX : moved.clientY;
        move((now - last) / (whole * divider.length));
        last = now;
      };
      const drop = () => {
        document.documentElement.classList.remove('dragging');
        removeEventListener('pointermove', drag);
      };
      // Over a pane the pointer would belong to its terminal.
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
