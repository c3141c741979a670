// Reads the cells of a terminal in a page or in Node. They come from the emulator: the DOM has only the visible rows,
// without exact colours and widths.

import assert from 'node:assert/strict';

/**
 * Collects every xterm.js terminal of the page in `terminals`. The console does not expose them, but an xterm.js
 * terminal assigns its `_core` when it is created, which calls a setter in Object.prototype.
 */
export function captureTerminals(page) {
  return page.addInitScript(() => {
    globalThis.terminals = [];
    globalThis.visibleTerminal = () => {
      const visible = globalThis.terminals.filter(({ element }) => element?.checkVisibility());
      if (visible.length !== 1) throw new Error(`${visible.length} terminals are visible`);
      return visible[0];
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

/** The cells of the one visible terminal in the page. */
export const readCells = (page) => page.evaluate(`(${describeCells})(visibleTerminal())`);

/**
 * Everything that is visible, each line as its text and the styles of its runs. The function is also sent into pages,
 * so it must not use anything outside of it.
 */
export function describeCells(terminal) {
  const buffer = terminal.buffer.active;
  const style = (cell) => {
    const colours = [cell.getFgColorMode(), cell.getFgColor(), cell.getBgColorMode(), cell.getBgColor()];
    const flags = [
      cell.isBold(),
      cell.isDim(),
      cell.isItalic(),
      cell.isUnderline(),
      cell.isBlink(),
      cell.isInverse(),
      cell.isInvisible(),
      cell.isStrikethrough(),
      cell.isOverline(),
    ];
    return `${colours.join(',')} ${flags.map((value) => (value ? 1 : 0)).join('')}`;
  };
  const lines = [];
  for (let y = 0; y < buffer.length; y += 1) {
    const line = buffer.getLine(y);
    let text = '';
    const runs = [];
    for (let x = 0; x < terminal.cols; x += 1) {
      const cell = line.getCell(x);
      const width = cell.getWidth();
      // An empty cell looks like a space. The second half of a wide character has no text.
      text += width === 0 ? '' : cell.getChars() || ' ';
      const current = `${width} ${style(cell)}`;
      if (runs.at(-1)?.[1] !== current) runs.push([x, current]);
    }
    lines.push({ text, runs: runs.map((run) => run.join(':')).join(' | '), isWrapped: line.isWrapped });
  }
  const { cols, rows } = terminal;
  return { cols, rows, buffer: buffer.type, cursor: [buffer.cursorX, buffer.cursorY], top: buffer.baseY, lines };
}

/** Reports only the first line that differs, because terminals have thousands of lines. */
export function assertSameCells(actual, expected, description) {
  const { lines, ...rest } = actual;
  const { lines: expectedLines, ...expectedRest } = expected;
  const index = lines.findIndex((line, y) => JSON.stringify(line) !== JSON.stringify(expectedLines[y]));
  if (index >= 0) {
    const [got, wanted] = [lines, expectedLines].map((all) => JSON.stringify(all[index]));
    assert.fail(`${description}: line ${index} of ${lines.length} is ${got} instead of ${wanted}`);
  }
  assert.deepEqual(rest, expectedRest, description);
  assert.equal(lines.length, expectedLines.length, `${description}: number of lines`);
}
