import type { Terminal } from '@xterm/xterm';

const LARGEST_PX = 15;
const SMALLEST_PX = 5;

/** Of a terminal whose size is somebody else's: the letters become as large as fits into `place`. */
export function fitFont(terminal: Terminal, place: HTMLElement): () => void {
  return () => {
    const drawn = terminal.element?.querySelector<HTMLElement>('.xterm-screen');
    if (!drawn || drawn.offsetWidth === 0 || place.clientWidth === 0) return;
    const room = Math.min(place.clientWidth / drawn.offsetWidth, place.clientHeight / drawn.offsetHeight);
    const wanted = Math.floor((terminal.options.fontSize ?? 13) * room * 2) / 2;
    terminal.options.fontSize = Math.min(LARGEST_PX, Math.max(SMALLEST_PX, wanted));
  };
}
