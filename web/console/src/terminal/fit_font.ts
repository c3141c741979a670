import type { Terminal } from '@xterm/xterm';

const LARGEST_PX = 15;
const SMALLEST_PX = 5;
const STEP_PX = 0.5;
/** What `place` has of padding, both sides together. */
const EDGE_PX = 24;

/** Of a terminal whose size is somebody else's: the letters become as large as fits into `place`. */
export function fitFont(terminal: Terminal, place: HTMLElement): () => void {
  let isDue = false;
  /** How much larger it could be drawn. */
  const room = () => {
    const drawn = terminal.element?.querySelector<HTMLElement>('.xterm-screen');
    if (!drawn || drawn.offsetWidth === 0 || place.clientWidth === 0) return 1;
    return Math.min((place.clientWidth - EDGE_PX) / drawn.offsetWidth, (place.clientHeight - EDGE_PX) / drawn.offsetHeight);
  };
  const set = (size: number) =>
    (terminal.options.fontSize = Math.min(LARGEST_PX, Math.max(SMALLEST_PX, Math.floor(size / STEP_PX) * STEP_PX)));
  return () => {
    if (isDue) return;
    isDue = true;
    // A new size is measured when it is drawn.
    requestAnimationFrame(() => {
      isDue = false;
      const { fontSize = LARGEST_PX } = terminal.options;
      set(fontSize * room());
      // Cells are whole pixels: what was computed may still be a little too much.
      if (room() < 1) set(terminal.options.fontSize! - STEP_PX);
    });
  };
}
