// The cells of a terminal: of one in a page, or of one in Node. Rows in the document are what is drawn of them; colours, widths and what
// has scrolled away are only in the emulator itself.

import assert from 'node:assert/strict';

/**
 * Keeps every xterm.js that the page makes, in `terminals`. The console hands none out, and need not: an xterm.js puts what it is made of
 * into `_core` when it begins, and whatever stands under that name in Object.prototype is told.
 */
export function keepTerminals(page) {
  return page.addInitScript(() => {
    globalThis.terminals = [];
    globalThis.shownTerminal = () => {
      const shown = globalThis.terminals.filter(({ element }) => element?.checkVisibility());
      if (shown.length !== 1) throw new Error(`${shown.length} terminals are shown`);
      return shown[0];
    };
    Object.defineProperty(Object.prototype, '_core', {
      configurable: true,
      get: () => undefined,
      set(core) {
        Object.defineProperty(this, '_core', { value: core, writable: true, configurable: true, enumerable: true });
        if (typeof this.loadAddon === 'function') globalThis.terminals.push(this);
      },
    });
  });
}

/** Of the one terminal that the page shows. */
export const cellsIn = (page) => page.evaluate(`(${describe})(shownTerminal())`);

/** Everything that a person could tell apart, each line as its text and the styles of its runs. It is sent into pages: it refers to nothing outside. */
export function describe(terminal) {
  const buffer = terminal.buffer.active;
  const style = (cell) => {
    const colours = [cell.getFgColorMode(), cell.getFgColor(), cell.getBgColorMode(), cell.getBgColor()];
    const is = [cell.isBold(), cell.isDim(), cell.isItalic(), cell.isUnderline(), cell.isBlink(), cell.isInverse(), cell.isInvisible(), cell.isStrikethrough(), cell.isOverline()];
    return `${colours.join(',')} ${is.map((value) => (value ? 1 : 0)).join('')}`;
  };
  const lines = [];
  for (let y = 0; y < buffer.length; y += 1) {
    const line = buffer.getLine(y);
    let text = '';
    const runs = [];
    for (let x = 0; x < terminal.cols; x += 1) {
      const cell = line.getCell(x);
      const width = cell.getWidth();
      // Never written and a space look the same. The second half of a wide letter has nothing of its own.
      text += width === 0 ? '' : cell.getChars() || ' ';
      const now = `${width} ${style(cell)}`;
      if (runs.at(-1)?.[1] !== now) runs.push([x, now]);
    }
    lines.push({ text, runs: runs.map((run) => run.join(':')).join(' | '), isWrapped: line.isWrapped });
  }
  const { cols, rows } = terminal;
  return { cols, rows, buffer: buffer.type, cursor: [buffer.cursorX, buffer.cursorY], top: buffer.baseY, lines };
}

/** Fails at the first line that is another one: thousands of lines side by side help nobody. */
export function assertSameCells(actual, expected, what) {
  const { lines, ...about } = actual;
  const { lines: expectedLines, ...expectedAbout } = expected;
  const at = lines.findIndex((line, y) => JSON.stringify(line) !== JSON.stringify(expectedLines[y]));
  if (at >= 0) assert.fail(`${what}: line ${at} of ${lines.length} is ${JSON.stringify(lines[at])} instead of ${JSON.stringify(expectedLines[at])}`);
  assert.deepEqual(about, expectedAbout, what);
  assert.equal(lines.length, expectedLines.length, `${what}: lines`);
}
