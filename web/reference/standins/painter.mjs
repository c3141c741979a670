// Creates a repaint from the state of an xterm.js terminal. It shows that nearly every state has a repaint that passes.
// Returns undefined for states that bytes cannot restore, or only with more effort than a test program is worth.

import { Emulator } from '../emulator.mjs';

/** RIS, followed by sequences for state that it does not reset. */
export const FULL_RESET = '\x1bc\x1b[20l\x1b[?12l\x1b[?25h\x1b]2;\x07\x1b]104\x07\x1b]110\x07\x1b]111\x07\x1b]112\x07';

const RGB = 3;
const FLAGS = {
  fg: [
    [26, 7],
    [27, 1],
    [29, 5],
    [30, 8],
    [31, 9],
  ],
  bg: [
    [26, 3],
    [27, 2],
    [30, 53],
  ],
};
const FG_UNDERLINE = 0x10000000;
const BG_HAS_EXTENDED = 0x10000000;
const BG_PROTECTED = 0x20000000;
const BG_COLOUR = 0x03ffffff;
const INVISIBLE_JOINER = '\u200b';
const WIDE = '字';

class UnreachableState extends Error {}

export function paint(emulator, above) {
  try {
    return Buffer.from(new Painter(emulator, above).all());
  } catch (error) {
    if (error instanceof UnreachableState) return undefined;
    throw error;
  }
}

class Painter {
  constructor(emulator, above) {
    this.emulator = emulator;
    this.core = emulator.core;
    this.cols = this.core.cols;
    this.rows = this.core.rows;
    this.above = above;
    this.out = [FULL_RESET];
    this.link = '';
  }

  put(...texts) {
    this.out.push(...texts);
  }

  to(row, col) {
    this.put(`\x1b[${row + 1};${col + 1}H`);
  }

  all() {
    const { active, normal, alt } = this.core._bufferService.buffers;
    if (active === normal && isUsed(alt)) {
      this.put('\x1b[?1047h');
      this.savedCursor(alt);
      this.put('\x1b[?1047l');
    }
    this.content(normal, Math.min(this.above, normal.ybase));
    this.screenSettings(normal);
    if (active === alt) {
      // A resize uses the cursor row of the hidden main screen.
      this.to(normal.y, 0);
      this.put('\x1b[?1047h');
      this.content(alt, 0);
      this.screenSettings(alt);
    }
    this.end(active);
    return this.out.join('');
  }

  content(buffer, linesAbove) {
    const total = linesAbove + this.rows;
    let dirty = false;
    for (let k = 0; k < total; k += 1) {
      const line = buffer.lines.get(buffer.ybase - linesAbove + k);
      const row = Math.min(k, this.rows - 1);
      this.line(line, row, dirty);
      dirty = false;
      if (k + 1 === total) break;
      if (buffer.lines.get(buffer.ybase - linesAbove + k + 1).isWrapped) {
        this.wrap(line, row);
        dirty = true;
      } else if (row === this.rows - 1) {
        this.plain();
        this.to(row, 0);
        this.put('\n');
      }
    }
    this.plain();
  }

  line(line, row, dirty) {
    const cells = readCells(line, this.cols, this.core._oscLinkService);
    dirty = this.orphanSecondHalves(cells, row) || dirty;
    dirty = this.styledNulls(cells, row) || dirty;
    let at = -1;
    for (let col = 0; col < this.cols; ) {
      const cell = cells[col];
      if (cell.kind === 'styled null' || cell.kind === 'orphan second half') {
        col += 1;
        at = -1;
      } else if (cell.kind === 'null') {
        let end = col + 1;
        while (end < this.cols && cells[end].kind === 'null' && cells[end].bg === cell.bg) end += 1;
        if (dirty || cell.bg !== 0) {
          this.to(row, col);
          this.attributes(cell);
          this.put(`\x1b[${end - col}X`);
        }
        col = end;
        at = -1;
      } else if (cell.kind === 'text' || cell.kind === 'wide') {
        if (at !== col) this.to(row, col);
        this.attributes(cell);
        this.put(cell.text);
        col += cell.kind === 'wide' ? 2 : 1;
        at = col < this.cols ? col : -1;
      } else if (cell.kind === 'mark') {
        // After an escape sequence the mark has nothing to join and gets its own cell.
        this.to(row, col);
        this.attributes(cell);
        this.put(cell.text);
        col += 1;
        at = -1;
      } else if (cell.kind === 'torn') {
        // Overwriting the second half at the edge without wrapping does not clear the first half.
        this.to(row, col);
        this.attributes(cell);
        this.put(cell.text);
        this.attributes(cells[col + 1]);
        this.put('\x1b[?7l', cells[col + 1].text, '\x1b[?7h');
        col += 2;
        at = -1;
      } else {
        throw new UnreachableState(`${cell.kind} in column ${col}`);
      }
    }
  }

  /** Second halves of wide characters that were separated by inserting cells between the halves. */
  orphanSecondHalves(cells, row) {
    const found = [...cells.keys()].filter((col) => cells[col].kind === 'orphan second half');
    for (const col of found) {
      if (col < 2) throw new UnreachableState();
      this.to(row, col - 2);
      this.attributes(cells[col]);
      this.put(WIDE);
      this.to(row, col - 1);
      this.put('\x1b[@');
    }
    return found.length > 0;
  }

  /** Empty cells with more attributes than a background, which are left over from wide characters. */
  styledNulls(cells, row) {
    let any = false;
    for (let from = 0; from < this.cols; from += 1) {
      if (cells[from].kind !== 'styled null') continue;
      any = true;
      let end = from;
      while (end + 1 < this.cols && cells[end + 1].kind === 'styled null') end += 1;
      if (end < this.cols - 1) {
        for (let col = from; col <= end; col += 1) this.half(row, col, col + 1, cells[col]);
      } else if (from > 0) {
        for (let col = end; col >= from; col -= 1) this.half(row, col - 1, col - 1, cells[col]);
      } else {
        throw new UnreachableState();
      }
      from = end;
    }
    return any;
  }

  /** Writes a wide character at `col` and overwrites one half; the other half becomes null with these attributes. */
  half(row, col, overwrittenCol, cell) {
    this.to(row, col);
    this.put(WIDE);
    this.to(row, overwrittenCol);
    this.attributes(cell);
    this.put('x');
  }

  /** Moves to the next line so that it counts as wrapped. */
  wrap(line, row) {
    const cells = readCells(line, this.cols, this.core._oscLinkService);
    const last = cells[this.cols - 1];
    if (last.kind === 'null' || last.kind === 'styled null') {
      this.to(row, this.cols - 1);
      this.attributes(last);
      this.put(WIDE);
    } else if (['text', 'mark'].includes(last.kind) && cells[this.cols - 2].kind !== 'torn') {
      this.to(row, this.cols - 1);
      this.attributes(last);
      this.put(last.text, 'x');
    } else if (last.kind === 'second' && cells[this.cols - 2].kind === 'wide') {
      this.to(row, this.cols - 2);
      this.attributes(cells[this.cols - 2]);
      this.put(cells[this.cols - 2].text, 'x');
    } else {
      throw new UnreachableState();
    }
    // This writes cells of the next line, or fills it with a background. The next line is painted in full.
  }

  screenSettings(buffer) {
    const stops = [...Array(this.cols).keys()].filter((col) => buffer.tabs[col]);
    if (stops.some((col) => col % 8 !== 0) || stops.length !== Math.ceil(this.cols / 8)) {
      this.put('\x1b[3g');
      for (const col of stops) {
        this.to(0, col);
        this.put('\x1bH');
      }
    }
    if (isUsed(buffer)) this.savedCursor(buffer);
    if (buffer.scrollTop !== 0 || buffer.scrollBottom !== this.rows - 1) {
      this.put(`\x1b[${buffer.scrollTop + 1};${buffer.scrollBottom + 1}r`);
    }
  }

  savedCursor(buffer) {
    const { fg, bg } = buffer.savedCurAttrData;
    const name = charsetName(buffer.savedCharset);
    this.attributes({ fg: fg & ~FG_UNDERLINE, bg, style: fg & FG_UNDERLINE ? 1 : 0, lineColour: 0, link: '' });
    this.to(Math.min(Math.max(buffer.savedY - buffer.ybase, 0), this.rows - 1), Math.min(buffer.savedX, this.cols - 1));
    this.put(`\x1b(${name}\x1b7\x1b(B`);
    this.plain();
  }

  /** The cursor, and everything that does not move it. */
  end(buffer) {
    const { core, cols } = this;
    const { decPrivateModes: modes } = core.coreService;
    const join = (core._inputHandler._parser.precedingJoinState >> 1) & 3;
    const { _charsetService: charsets } = core;
    const isCharsetRestored = charsets.charset !== charsets._charsets[charsets.glevel];
    if (isCharsetRestored && buffer.savedCharset !== charsets.charset) throw new UnreachableState();
    if (isCharsetRestored) {
      this.charsets();
      this.put('\x1b8');
      this.plain();
    }
    if (modes.origin) {
      if (buffer.y < buffer.scrollTop || buffer.y > buffer.scrollBottom) throw new UnreachableState();
      this.put('\x1b[?6h');
    }
    const row = modes.origin ? buffer.y - buffer.scrollTop : buffer.y;
    const cells = readCells(buffer.lines.get(buffer.ybase + buffer.y), cols, core._oscLinkService);
    if (join > 0) {
      this.lastPrinted(cells, row, buffer.x - join, join);
    } else if (buffer.x < cols) {
      this.to(row, buffer.x);
    } else {
      if (isCharsetRestored && charsets.charset) throw new UnreachableState();
      this.pendingWrap(cells, row);
      this.put('\x1b[m', INVISIBLE_JOINER.repeat(buffer.x - cols));
    }
    if (!isCharsetRestored) this.charsets();
    this.modes();
    const { fg, bg, extended } = core._inputHandler._curAttrData;
    this.attributes({ ...readAttributes(fg, bg, extended, core._oscLinkService), lineColour: extended.underlineColor });
    if (join > 0) this.put(cells[buffer.x - join].text);
  }

  /** Moves to the last character, which is printed again at the very end so that it can be joined and repeated. */
  lastPrinted(cells, row, col, width) {
    const { core } = this;
    const cell = cells[col];
    const { charset } = core._charsetService;
    const { fg, bg, extended } = core._inputHandler._curAttrData;
    const now = readAttributes(fg, bg, extended, core._oscLinkService);
    const canReprint = cell && cell.kind === (width === 2 ? 'wide' : 'text') && sameAttributes(cell, now);
    if (!canReprint || (charset && [...cell.text].some((letter) => charset[letter]))) throw new UnreachableState();
    this.to(row, col);
    // In insert mode the reprinted character shifts the cells after it, so they are shifted back first.
    if (core.coreService.modes.insertMode) this.put(`\x1b[${width}P`);
  }

  pendingWrap(cells, row) {
    const last = this.cols - 1;
    const wide = cells[last].kind === 'second';
    const cell = cells[wide ? last - 1 : last];
    this.to(row, wide ? last - 1 : last);
    this.attributes(cell);
    if (cell.kind === (wide ? 'wide' : 'text') && cells[last - 1].kind !== 'torn') {
      this.put(cell.text);
    } else if (cells.every(({ kind, bg }) => kind === 'null' && bg === cell.bg)) {
      this.put('x\x1b[1K');
    } else {
      throw new UnreachableState();
    }
  }

  charsets() {
    const { _charsets: sets, glevel } = this.core._charsetService;
    '()*+'.split('').forEach((g, i) => this.put(`\x1b${g}${charsetName(sets[i])}`));
    this.put(['\x0f', '\x0e', '\x1bn', '\x1bo'][glevel]);
  }

  modes() {
    const { core } = this;
    const { decPrivateModes: modes, isCursorHidden } = core.coreService;
    const set = (yes, number) => this.put(yes ? `\x1b[?${number}h` : '');
    set(modes.applicationCursorKeys, 1);
    set(modes.applicationKeypad, 66);
    set(modes.bracketedPasteMode, 2004);
    set(modes.reverseWraparound, 45);
    set(modes.sendFocus, 1004);
    set(modes.synchronizedOutput, 2026);
    const protocol = { X10: 9, VT200: 1000, DRAG: 1002, ANY: 1003 }[core.coreMouseService.activeProtocol];
    set(protocol, protocol);
    set(
      core.coreMouseService.activeEncoding !== 'DEFAULT',
      core.coreMouseService.activeEncoding === 'SGR' ? 1006 : 1016,
    );
    set(core.options.cursorBlink, 12);
    this.put(
      modes.wraparound ? '' : '\x1b[?7l',
      isCursorHidden ? '\x1b[?25l' : '',
      core.coreService.modes.insertMode ? '\x1b[4h' : '',
    );
    this.put(core.options.convertEol ? '\x1b[20h' : '');
    const style = { block: 1, underline: 3, bar: 5 }[modes.cursorStyle];
    if (style) this.put(`\x1b[${style + (modes.cursorBlink ? 0 : 1)} q`);
    else if (modes.cursorBlink !== undefined) this.put(`\x1b[${modes.cursorBlink ? 7 : 8} q`);
    const title = core._inputHandler._windowTitle;
    if (title) this.put(`\x1b]2;${title}\x07`);
    for (const [index, rgb] of this.emulator.colours) {
      const spec = `rgb:${rgb
        .split(',')
        .map((n) => Number(n).toString(16).padStart(2, '0'))
        .join('/')}`;
      this.put(index < 256 ? `\x1b]4;${index};${spec}\x07` : `\x1b]${index - 256 + 10};${spec}\x07`);
    }
  }

  plain() {
    this.attributes({ fg: 0, bg: 0, style: 0, lineColour: 0, link: '' });
  }

  attributes({ fg, bg, style, lineColour, link }) {
    const codes = [0];
    for (const [bit, code] of FLAGS.fg) if ((fg >>> bit) & 1) codes.push(code);
    for (const [bit, code] of FLAGS.bg) if ((bg >>> bit) & 1) codes.push(code);
    if (style) codes.push(`4:${style}`);
    colour(codes, fg, 30);
    colour(codes, bg, 40);
    colour(codes, lineColour, 50);
    const wanted = `\x1b[${codes.join(';')}m${bg & BG_PROTECTED ? '\x1b[1"q' : ''}`;
    if (link !== this.link) this.put(`\x1b]8;${link || ';'}\x07`);
    this.link = link;
    this.put(wanted);
  }
}

function colour(codes, value, base) {
  const mode = (value >>> 24) & 3;
  if (mode === RGB) codes.push(`${base + 8};2;${(value >>> 16) & 255};${(value >>> 8) & 255};${value & 255}`);
  else if (mode === 2) codes.push(`${base + 8};5;${value & 255}`);
  else if (mode === 1) codes.push((value & 255) < 8 ? base + (value & 255) : base + 60 + (value & 255) - 8);
}

function isUsed({ savedX, savedY, savedCurAttrData: { fg, bg }, savedCharset }) {
  return savedX !== 0 || savedY !== 0 || fg !== 0 || bg !== 0 || savedCharset !== undefined;
}

function readAttributes(fg, bg, extended, links) {
  const has = bg & BG_HAS_EXTENDED;
  const data = has && extended.urlId ? links?.getLinkData(extended.urlId) : undefined;
  return {
    fg: fg & ~FG_UNDERLINE,
    bg: bg & ~BG_HAS_EXTENDED,
    style: has ? (extended._ext & 0x1c000000) >> 26 : fg & FG_UNDERLINE ? 1 : 0,
    lineColour: has ? extended.underlineColor : 0,
    link: data ? `${data.id ? `id=${data.id}` : ''};${data.uri}` : '',
  };
}

function sameAttributes(a, b) {
  const visible = ({ fg, bg, style, lineColour, link }) => [fg, bg, style, style || link ? lineColour : 0, link].join();
  return visible(a) === visible(b);
}

function readCells(line, cols, links) {
  const cells = [];
  for (let col = 0; col < cols; col += 1) {
    const content = line._data[col * 3];
    const width = content >>> 22;
    const text = line.getString(col);
    const attributes = readAttributes(
      line._data[col * 3 + 1],
      line._data[col * 3 + 2],
      line._extendedAttrs[col],
      links,
    );
    cells.push({ ...attributes, text, width, kind: kindOf(text, width) });
  }
  cells.forEach((cell, col) => {
    const next = cells[col + 1];
    // The first half of a character that a resize cut through is not compared.
    if (cell.kind === 'wide' && !next)
      Object.assign(cell, { kind: 'null', fg: 0, bg: cell.bg & BG_COLOUR, style: 0, link: '' });
    else if (cell.kind === 'wide' && next.kind !== 'second')
      cell.kind = col === cols - 2 && next.kind === 'text' ? 'torn' : 'orphan first half';
    else if (cell.kind === 'second' && (col === 0 || cells[col - 1].kind !== 'wide')) cell.kind = 'orphan second half';
    if (cell.kind === 'null' && (cell.fg !== 0 || cell.bg & ~BG_COLOUR || cell.style || cell.link))
      cell.kind = 'styled null';
  });
  return cells;
}

function kindOf(text, width) {
  if (width === 2) return 'wide';
  if (width === 1) return text ? 'text' : 'null';
  return text ? 'mark' : 'second';
}

const NAMES = new Map([[undefined, 'B']]);
{
  const emulator = new Emulator(2, 1);
  for (const name of '0A4CRQKYEZH=') {
    emulator.write(Buffer.from(`\x1b(${name}`));
    NAMES.set(emulator.core._charsetService.charset, name);
  }
}

function charsetName(table) {
  return NAMES.get(table);
}
