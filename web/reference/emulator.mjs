// One xterm.js without a page, fed with bytes at once (its own `write` waits for timers).

import headless from '@xterm/headless';
import unicode11 from '@xterm/addon-unicode11';

/** Lines that xterm.js keeps above the screen here: what a client may ask for at most. */
export const HISTORY = 1000;

const NOTHING = new Uint8Array(0);

export class Emulator {
  constructor(cols, rows) {
    this.terminal = new headless.Terminal({ cols, rows, scrollback: HISTORY, allowProposedApi: true, logLevel: 'off' });
    this.terminal.loadAddon(new unicode11.Unicode11Addon());
    this.terminal.unicode.activeVersion = '11';
    this.core = this.terminal._core;
    this.held = NOTHING;
    printOneByOne(this.core);
    copyMarksRight(this.core);
    keepSavedRow(this.terminal);
    // A page would take these over into its theme; without one nobody keeps them.
    this.colours = new Map();
    this.core._inputHandler.onColor((event) => event.forEach((request) => this.colour(request)));
  }

  write(bytes) {
    const whole = this.held.length === 0 ? bytes : Buffer.concat([this.held, bytes]);
    const complete = whole.length - unfinished(whole);
    this.held = whole.slice(complete);
    if (complete > 0) this.core._inputHandler.parse(whole.subarray(0, complete));
  }

  resize(cols, rows) {
    this.terminal.resize(cols, rows);
    // xterm.js 6.0.0 leaves the alternate screen its old room while it is not shown; when it has become smaller there
    // are lines above it afterwards, and saved cursors move with them.
    const { alt, normal } = this.core._bufferService.buffers;
    if (alt.lines.length === 0) alt.lines.maxLength = rows;
    // It also leaves a saved cursor below a screen that has become smaller, where none can be saved.
    for (const buffer of [alt, normal]) buffer.savedY = Math.min(buffer.savedY, buffer.ybase + rows - 1);
  }

  /** As new, in a tenth of the time a new one takes. */
  renew(cols, rows) {
    const { core } = this;
    if (cols !== core.cols || rows !== core.rows) this.resize(cols, rows);
    core.reset();
    // What a reset leaves as it was.
    core._inputHandler._parser.reset();
    core._inputHandler._windowTitle = '';
    core._oscLinkService._entriesWithId.clear();
    core._oscLinkService._dataByLinkId.clear();
    core.coreService.isCursorHidden = false;
    core.coreService.isCursorInitialized = false;
    core.options.convertEol = false;
    core.options.cursorBlink = false;
    this.colours.clear();
    this.held = NOTHING;
  }

  colour({ type, index, color }) {
    const [REPORT, SET] = [0, 1];
    if (type === REPORT) return;
    if (type === SET) this.colours.set(index, color.join(','));
    else if (index !== undefined) this.colours.delete(index);
    else for (let i = 0; i < 256; i += 1) this.colours.delete(i);
  }
}

/**
 * Without wrapping, a wide character that does not fit moves the cursor back onto what may be the second half of
 * another one, and whether that one is mended depends on where a write happens to end. One character at a time it
 * always is.
 */
function printOneByOne({ _inputHandler: handler, coreService }) {
  handler._parser.setPrintHandler((data, start, end) => {
    if (coreService.decPrivateModes.wraparound) handler.print(data, start, end);
    else for (let i = start; i < end; i += 1) handler.print(data, i, i + 1);
  });
}

/**
 * When xterm.js 6.0.0 wraps lines anew it copies the texts of cells with combining marks in the wrong order, and those
 * of cells beyond the copied ones too: characters turn into each other. Nobody should have to do the same.
 */
function copyMarksRight({ buffer }) {
  const line = Object.getPrototypeOf(buffer.lines.get(0));
  if (line.copyMarksRight) return;
  line.copyMarksRight = true;
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
 * xterm.js 6.0.0 counts the saved row from the oldest line it has, and does not count anew when the lines above the
 * screen are erased: a saved cursor, even one that nobody saved, then goes down by as many rows as there were lines.
 */
function keepSavedRow(terminal) {
  const erase = (params) => {
    const { active } = terminal._core._bufferService.buffers;
    if (params[0] === 3) active.savedY = Math.max(active.savedY - active.ybase, 0);
    return false; // xterm.js goes on with it.
  };
  terminal.parser.registerCsiHandler({ final: 'J' }, erase);
  terminal.parser.registerCsiHandler({ prefix: '?', final: 'J' }, erase);
}

/**
 * How many bytes at the end begin a character that is not complete yet. They are kept back: xterm.js 6.0.0 loses a
 * character that comes in two writes when the first one ends with the byte 0x80 (0xE2 0x80 | 0x9C), and the cuts
 * here would make it do so all the time.
 */
function unfinished(bytes) {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back];
    if ((byte & 0xc0) === 0x80) continue;
    const length = byte >= 0xf8 ? 1 : byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}
