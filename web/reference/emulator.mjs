// A headless xterm.js that parses synchronously (its own `write` waits for timers). Also works around faults of
// xterm.js 6.0.0 that a repaint should not have to reproduce.

import headless from '@xterm/headless';
import unicode11 from '@xterm/addon-unicode11';

/** The largest scrollback that a client may request. */
const SCROLLBACK_LINES = 1000;

const EMPTY = new Uint8Array(0);

export class Emulator {
  constructor(cols, rows) {
    this.terminal = new headless.Terminal({
      cols,
      rows,
      scrollback: SCROLLBACK_LINES,
      allowProposedApi: true,
      logLevel: 'off',
    });
    this.terminal.loadAddon(new unicode11.Unicode11Addon());
    this.terminal.unicode.activeVersion = '11';
    this.core = this.terminal._core;
    /** An incomplete character at the end of the last write. */
    this.held = EMPTY;
    printOneByOne(this.core);
    fixCopyOfCombiningMarks(this.core);
    fixSavedRowAfterErase(this.terminal);
    // A page would apply these to its theme. The headless version does not keep them.
    this.colours = new Map();
    this.core._inputHandler.onColor((event) => event.forEach((request) => this.applyColour(request)));
  }

  write(bytes) {
    const all = this.held.length === 0 ? bytes : Buffer.concat([this.held, bytes]);
    const complete = all.length - incompleteSuffixLength(all);
    this.held = all.slice(complete);
    if (complete > 0) this.core._inputHandler.parse(all.subarray(0, complete));
  }

  resize(cols, rows) {
    this.terminal.resize(cols, rows);
    // xterm.js 6.0.0 keeps the old capacity of the alternate screen while it is hidden. After the screen became
    // smaller, lines remain above it, and saved cursors move with them.
    const { alt, normal } = this.core._bufferService.buffers;
    if (alt.lines.length === 0) alt.lines.maxLength = rows;
    // It also leaves a saved cursor below a screen that became smaller, where no program could save one.
    for (const buffer of [alt, normal]) buffer.savedY = Math.min(buffer.savedY, buffer.ybase + rows - 1);
  }

  /** Resets to the initial state, ten times faster than creating a new emulator. */
  renew(cols, rows) {
    const { core } = this;
    if (cols !== core.cols || rows !== core.rows) this.resize(cols, rows);
    core.reset();
    // State that `reset` does not restore.
    core._inputHandler._parser.reset();
    core._inputHandler._windowTitle = '';
    core._oscLinkService._entriesWithId.clear();
    core._oscLinkService._dataByLinkId.clear();
    core.coreService.isCursorHidden = false;
    core.coreService.isCursorInitialized = false;
    core.options.convertEol = false;
    core.options.cursorBlink = false;
    this.colours.clear();
    this.held = EMPTY;
  }

  applyColour({ type, index, color }) {
    const [REPORT, SET] = [0, 1];
    if (type === REPORT) return;
    if (type === SET) this.colours.set(index, color.join(','));
    else if (index !== undefined) this.colours.delete(index);
    else for (let i = 0; i < 256; i += 1) this.colours.delete(i);
  }
}

/**
 * Without wrapping, a wide character that does not fit moves the cursor back, possibly onto the second half of another
 * wide character. xterm.js repairs that character only if a write ends there. Printing one character at a time always
 * repairs it.
 */
function printOneByOne({ _inputHandler: handler, coreService }) {
  handler._parser.setPrintHandler((data, start, end) => {
    if (coreService.decPrivateModes.wraparound) handler.print(data, start, end);
    else for (let i = start; i < end; i += 1) handler.print(data, i, i + 1);
  });
}

/**
 * When xterm.js 6.0.0 reflows lines, it copies the texts of cells with combining marks in the wrong order, and also
 * those of cells outside the copied range, so characters are replaced by others.
 */
function fixCopyOfCombiningMarks({ buffer }) {
  const line = Object.getPrototypeOf(buffer.lines.get(0));
  if (line.isCopyFixed) return;
  line.isCopyFixed = true;
  const [COMBINED, EXTENDED] = [0x200000, 0x10000000];
  line.copyCellsFrom = function copyCellsFrom(from, fromCol, toCol, length) {
    const texts = [];
    const attributes = [];
    for (let i = 0; i < length; i += 1) {
      texts.push(from._combined[fromCol + i]);
      attributes.push(from._extendedAttrs[fromCol + i]);
    }
    this._data.set(from._data.slice(fromCol * 3, (fromCol + length) * 3), toCol * 3);
    for (let i = 0; i < length; i += 1) {
      const at = (toCol + i) * 3;
      if (this._data[at] & COMBINED) this._combined[toCol + i] = texts[i];
      if (this._data[at + 2] & EXTENDED) this._extendedAttrs[toCol + i] = attributes[i];
    }
  };
}

/**
 * xterm.js 6.0.0 counts the saved row from the oldest line and does not adjust it when the lines above the screen are
 * erased. A saved cursor, even the initial one, then moves down by as many rows as there were lines.
 */
function fixSavedRowAfterErase(terminal) {
  const erase = (params) => {
    const { active } = terminal._core._bufferService.buffers;
    if (params[0] === 3) active.savedY = Math.max(active.savedY - active.ybase, 0);
    return false; // xterm.js handles the sequence too.
  };
  terminal.parser.registerCsiHandler({ final: 'J' }, erase);
  terminal.parser.registerCsiHandler({ prefix: '?', final: 'J' }, erase);
}

/**
 * Number of bytes at the end that start a character but do not complete it. They are held back: xterm.js 6.0.0 loses a
 * character that is split over two writes if the first one ends with the byte 0x80 (0xE2 0x80 | 0x9C), which cuts at
 * random offsets often cause.
 */
function incompleteSuffixLength(bytes) {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back];
    if ((byte & 0xc0) === 0x80) continue;
    const length = byte >= 0xf8 ? 1 : byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}
