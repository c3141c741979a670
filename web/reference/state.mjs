// Everything that decides how a terminal looks and what it does with the next bytes, as one array of numbers. Two
// terminals are equal if their arrays are. Texts are numbers too: indexes into a table.

/** Numbers per cell. */
export const CELL = 4;
const CONTENT_IS_COMBINED = 0x200000;
const HAS_CONTENT = 0x3fffff;
const WIDTH = 0xc00000;
const WIDE = 2 << 22;
const COLOUR_MODE = 0x3000000;
const RGB = 0x3000000;
const FG_UNDERLINE = 0x10000000;
const BG_HAS_EXTENDED = 0x10000000;

/**
 * Equal to every number. It replaces state that no repaint can restore:
 * - a link whose address xterm.js has dropped, which happens when all lines it started on are cleared
 * - a wide character whose first half is in the last column, because a resize cut through it
 * - whether there is a character to join or repeat after a resize moved the cursor away from it
 * - the character set behind one that was restored on the other screen
 * - a cursor at a position that no sequence can reach
 */
const WILDCARD = 0x7ead1111;

const texts = [''];
const textIds = new Map([['', 0]]);

function textId(text) {
  let id = textIds.get(text);
  if (id === undefined) {
    id = texts.push(text) - 1;
    textIds.set(text, id);
  }
  return id;
}

export function textAt(id) {
  return texts[id];
}

/** Flags, mode and the colour bits that the mode uses. xterm.js leaves stale values in the other bits. */
function colour(value) {
  const mode = value & COLOUR_MODE;
  return (value & 0xfc000000) | mode | (mode === RGB ? value & 0xffffff : mode === 0 ? 0 : value & 0xff);
}

function underline(style, lineColour) {
  return style === 0 && colour(lineColour) === 0 ? '' : `underline ${style} ${hex(colour(lineColour))}`;
}

/**
 * All cells written while a link without an id is open belong to one link. A repaint can only express that with an id;
 * ids with this prefix count as none.
 */
function idOf({ id }) {
  return !id || id.startsWith('outlive-') ? '' : id;
}

export function hex(number) {
  return (number >>> 0).toString(16).padStart(8, '0');
}

const CHARSETS = new Map([[undefined, 0]]);
function charset(table) {
  if (!CHARSETS.has(table)) CHARSETS.set(table, CHARSETS.size);
  return CHARSETS.get(table);
}

/** Whether the last printed character, if any, is the one before the cursor and has the current attributes. */
export function canJoinLastCharacter(core) {
  const { _parser: parser, _curAttrData: current } = core._inputHandler;
  const { active } = core._bufferService.buffers;
  const width = (parser.precedingJoinState >> 1) & 3;
  if (width === 0) return true;
  const col = active.x - width;
  const { _data: data, _extendedAttrs: extended } = active.lines.get(active.ybase + active.y);
  const content = data[col * 3];
  if (col < 0 || content >>> 22 !== width || (content & HAS_CONTENT) === 0) return false;
  const both = new State();
  both.attributes(current.fg, current.bg, current.extended, core._oscLinkService);
  both.attributes(data[col * 3 + 1], data[col * 3 + 2], extended[col], core._oscLinkService);
  return both.sameFrom(0, both, both.length / 2, both.length / 2);
}

/** Whether the current character set was restored on the other screen, so that it hides the designated one. */
export function hasHiddenCharset({ _charsetService: charsets, _bufferService: { buffers } }) {
  return charsets.charset !== charsets._charsets[charsets.glevel] && charsets.charset !== buffers.active.savedCharset;
}

/**
 * Whether no sequence can move the cursor to its position: outside of the region in origin mode (it came from the other
 * screen), or to the right of an empty last cell (the line scrolled under it).
 */
export function isCursorUnreachable({
  coreService,
  cols,
  _bufferService: {
    buffers: { active },
  },
}) {
  const { x, y, scrollTop, scrollBottom, ybase, lines } = active;
  if (coreService.decPrivateModes.origin && (y < scrollTop || y > scrollBottom)) return true;
  if (x < cols) return false;
  const { _data: data } = lines.get(ybase + y);
  const [content, fg, bg] = data.subarray(cols * 3 - 3, cols * 3);
  if (content & HAS_CONTENT || content >>> 22 !== 1) return false;
  // An empty line is reachable: a full line can be erased with the cursor at its end.
  const erased = fg === 0 && (bg & 0xfc000000) === 0;
  for (let i = 0; erased && i < cols * 3; i += 3)
    if (data[i] !== content || data[i + 1] !== fg || data[i + 2] !== bg) return true;
  return !erased;
}

/** A reusable, growing buffer: thousands of states are read into the same memory. */
export class State {
  constructor(capacity = 16) {
    this.numbers = new Int32Array(capacity);
    this.length = 0;
    this.sections = [];
  }

  put(number) {
    if (this.length === this.numbers.length) {
      const larger = new Int32Array(this.numbers.length * 2);
      larger.set(this.numbers);
      this.numbers = larger;
    }
    this.numbers[this.length] = number;
    this.length += 1;
  }

  /** Starts a section, which describes the numbers that follow. */
  begin(name, kind, cols = 0) {
    this.sections.push({ name, kind, cols, at: this.length });
  }

  same(other) {
    return this.length === other.length && this.sameFrom(0, other, 0, this.length);
  }

  sameFrom(at, other, otherAt, length) {
    const { numbers: a } = this;
    const { numbers: b } = other;
    for (let i = 0; i < length; i += 1) {
      if (a[at + i] !== b[otherAt + i] && a[at + i] !== WILDCARD && b[otherAt + i] !== WILDCARD) return false;
    }
    return true;
  }

  /** `above`: number of lines above the screen to include. */
  read(emulator, above) {
    this.length = 0;
    this.sections.length = 0;
    const { core } = emulator;
    const { active, normal, alt } = core._bufferService.buffers;
    const links = core._oscLinkService;
    this.scalars(emulator);
    this.buffer(active, 'active screen', core, links, active === normal ? above : 0);
    this.screenSettings(active, 'active screen', core);
    if (active === alt) {
      this.buffer(normal, 'hidden main screen', core, links, above);
      this.screenSettings(normal, 'hidden main screen', core);
      // The row decides what a resize does with that screen.
      this.begin('cursor row on the hidden main screen', 'number');
      this.put(normal.y);
    } else {
      // The hidden alternate screen is empty; only its saved cursor remains.
      this.saved(alt, 'alternate screen', core);
    }
    return this;
  }

  scalars({ core, colours }) {
    const { active, alt } = core._bufferService.buffers;
    const { decPrivateModes, modes, isCursorHidden } = core.coreService;
    const { _parser: parser, _windowTitle: title, _curAttrData: attributes } = core._inputHandler;
    const number = (name, value) => {
      this.begin(name, 'number');
      this.put(value);
    };
    const text = (name, value) => {
      this.begin(name, 'text');
      this.put(textId(value));
    };
    number('columns', core.cols);
    number('rows', core.rows);
    number('alternate screen is active', active === alt ? 1 : 0);
    const isUnreachable = isCursorUnreachable(core);
    number('cursor column (number of columns: wrap is pending)', isUnreachable ? WILDCARD : active.x);
    number('cursor row', isUnreachable ? WILDCARD : active.y);
    number('cursor is hidden', isCursorHidden ? 1 : 0);
    for (const [name, value] of Object.entries(decPrivateModes)) text(`mode ${name}`, String(value));
    number('insert mode', modes.insertMode ? 1 : 0);
    number('line feed is new line (LNM)', core.options.convertEol ? 1 : 0);
    number('blinking cursor (?12)', core.options.cursorBlink ? 1 : 0);
    text('mouse protocol', core.coreMouseService.activeProtocol);
    text('mouse encoding', core.coreMouseService.activeEncoding);
    // The server removes control characters from titles, because some clients interpret them.
    text('title', title.replace(/[\x00-\x1f\x7f-\x9f]/g, ''));
    text(
      'colours (OSC 4, 10, 11, 12)',
      [...colours]
        .sort(([a], [b]) => a - b)
        .map((pair) => pair.join('='))
        .join(' '),
    );
    const charsets = core._charsetService;
    number('character set', charset(charsets.charset));
    number('shift (GL)', charsets.glevel);
    const hidden = hasHiddenCharset(core) ? charsets.glevel : -1;
    for (let g = 0; g < 4; g += 1) number(`G${g}`, g === hidden ? WILDCARD : charset(charsets._charsets[g]));
    number('parser state', parser.currentState);
    const joinWidth = canJoinLastCharacter(core) ? (parser.precedingJoinState >> 1) & 3 : WILDCARD;
    number('width of the previous character (for combining and REP)', joinWidth);
    this.begin('attributes of the next text', 'attributes');
    this.attributes(attributes.fg, attributes.bg, attributes.extended, core._oscLinkService);
    number('underline colour of the next text', colour(attributes.extended.underlineColor));
  }

  buffer(buffer, name, core, links, above) {
    const { cols, rows } = core;
    const linesAbove = Math.min(above, buffer.ybase);
    for (let row = -linesAbove; row < rows; row += 1) {
      const line = buffer.lines.get(buffer.ybase + row);
      this.begin(row < 0 ? `${name}, line ${-row} above` : `${name}, row ${row}`, 'line', cols);
      // For the first line, the flag refers to a line that the client does not have.
      this.put(row > -linesAbove && line.isWrapped ? 1 : 0);
      const data = line._data;
      for (let col = 0; col < cols; col += 1) {
        const content = data[col * 3];
        if (col === cols - 1 && (content & WIDTH) === WIDE) {
          for (let i = 0; i < CELL; i += 1) this.put(WILDCARD);
          continue;
        }
        this.put(content & CONTENT_IS_COMBINED ? -1 - ((content & WIDTH) | textId(line._combined[col])) : content);
        this.attributes(data[col * 3 + 1], data[col * 3 + 2], line._extendedAttrs[col], links);
      }
    }
  }

  /** Three numbers: foreground and flags, background and flags, underline and link. */
  attributes(fg, bg, extended, links) {
    this.put(colour(fg & ~FG_UNDERLINE));
    this.put(colour(bg & ~BG_HAS_EXTENDED));
    if (!(bg & BG_HAS_EXTENDED)) {
      this.put(fg & FG_UNDERLINE ? textId(underline(1, 0)) : 0);
      return;
    }
    // xterm.js draws links dashed, but keeps the underline style for when the link ends.
    const style = (extended._ext & 0x1c000000) >> 26;
    const link = extended.urlId ? links.getLinkData(extended.urlId) : undefined;
    if (extended.urlId && !link) this.put(WILDCARD);
    else if (!link && style === 0) this.put(0);
    else
      this.put(textId(underline(style, extended.underlineColor) + (link ? ` link ${link.uri} id=${idOf(link)}` : '')));
  }

  screenSettings(buffer, name, core) {
    this.begin(`scroll region of ${name}`, 'numbers');
    this.put(buffer.scrollTop);
    this.put(buffer.scrollBottom);
    this.begin(`tab stops of ${name}`, 'stops');
    for (let col = 0; col < core.cols; col += 1) this.put(buffer.tabs[col] ? 1 : 0);
    this.saved(buffer, name, core);
  }

  /** The cursor that DECRC would restore now. */
  saved(buffer, name, core) {
    this.begin(`saved cursor of ${name} (column, row, character set)`, 'numbers');
    this.put(Math.min(buffer.savedX, core.cols - 1));
    this.put(Math.min(Math.max(buffer.savedY - buffer.ybase, 0), core.rows - 1));
    this.put(charset(buffer.savedCharset));
    const { fg, bg } = buffer.savedCurAttrData;
    this.begin(`saved attributes of ${name} (foreground, background)`, 'numbers');
    this.put(colour(fg));
    this.put(colour(bg & ~BG_HAS_EXTENDED));
  }
}

/** Decodes the numbers of a cell for messages. */
export function cellAt(numbers, at) {
  const [content, fg, bg, more] = numbers.subarray(at, at + CELL);
  if (content === WILDCARD) return { text: '', width: 1, attributes: 'anything' };
  const isCombined = content < 0;
  const bits = isCombined ? -1 - content : content;
  const code = bits & 0x1fffff;
  return {
    text: isCombined ? texts[code] : code === 0 ? '' : String.fromCodePoint(code),
    width: bits >>> 22,
    attributes: attributesAt(fg, bg, more),
  };
}

export function attributesAt(fg, bg, more) {
  return `fg ${hex(fg)} bg ${hex(bg)}${more === WILDCARD ? ' dropped link' : more ? ` ${texts[more]}` : ''}`;
}
