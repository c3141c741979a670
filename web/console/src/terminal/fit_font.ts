import type { Terminal } from '@xterm/xterm';

const MAX_FONT_PX = 15;
const MIN_FONT_PX = 5;
const STEP_PX = 0.5;
/** Padding of the container, both sides together. */
const PADDING_PX = 24;

/**
 * For terminals whose size this page does not decide: returns a function that makes the font as large as fits into
 * `container`.
 */
export function fitFont(terminal: Terminal, container: HTMLElement): () => void {
  let isScheduled = false;
  /** How much larger the terminal could be drawn. */
  const scale = () => {
    const screen = terminal.element?.querySelector<HTMLElement>('.xterm-screen');
    if (!screen || screen.offsetWidth === 0 || container.clientWidth === 0) return 1;
    const horizontal = (container.clientWidth - PADDING_PX) / screen.offsetWidth;
    const vertical = (container.clientHeight - PADDING_PX) / screen.offsetHeight;
    return Math.min(horizontal, vertical);
  };
  const setFontSize = (px: number) => {
    const rounded = Math.floor(px / STEP_PX) * STEP_PX;
    terminal.options.fontSize = Math.min(MAX_FONT_PX, Math.max(MIN_FONT_PX, rounded));
  };
  return () => {
    if (isScheduled) return;
    isScheduled = true;
    // A new size can only be measured after it is drawn.
    requestAnimationFrame(() => {
      isScheduled = false;
      const { fontSize = MAX_FONT_PX } = terminal.options;
      setFontSize(fontSize * scale());
      // Cells are whole pixels, so the computed size may still be slightly too large.
      if (scale() < 1) setFontSize(terminal.options.fontSize! - STEP_PX);
    });
  };
}
