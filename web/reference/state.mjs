// All that decides how a terminal looks and what it will do with the next bytes, as one array of numbers. Two
// terminals are the same when their arrays are. Texts are numbers too: places in a table.

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
 * Stands for what cannot be asked for; what the other one has in its place does not matter. A link whose address
 * xterm.js has forgotten, which it does when all lines it began on are cleared: nobody else can know. And a wide
 * character that a resize cut through, so that its first half is in the last column: no bytes bring that about. And
 * that there is a character to join or repeat, where a resize has moved the cursor away from it. And the character set
 * that a restored one stands in for, where it was restored on the other screen. And a cursor in a place where none can
 * be put.
 */
const ANYTHING = 0x7ead1111;

const texts = [''];
const places = new Map([['', 0]]);

function place(text) {
  let found = places.get(text);
  if (found === undefined) {
    found = texts.push(text) - 1;
    places.set(text, found);
  }
  return found;
}

export function textAt(number) {
  return texts[number];
}

/** Flags and mode, and of the colour only what the mode looks at: xterm.js leaves old digits in the others. */
function colour(value) {
  const mode = value & COLOUR_MODE;
  return (value & 0xfc000000) | mode | (mode === RGB ? value & 0xffffff : mode === 0 ? 0 : value & 0xff);
}

function underline(style, lineColour) {
  return style === 0 && colour(lineColour) === 0 ? '' : `underline ${style} ${hex(colour(lineColour))}`;
}

/**
 * A link without an id is one link for as long as it is open; a repaint can only say so by giving it one. Those that
 * begin like this stand for none.
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

/** Whether what was printed last is what is before the cursor, with the attributes of now; or nothing was. */
export function joins(core) {
  const { _parser: parser, _curAttrData: now } = core._inputHandler;
  const { active } = core._bufferService.buffers;
  const width = (parser.precedingJoinState >> 1) & 3;
  if (width === 0) return true;
  const col = active.x - width;
  const { _data: data, _extendedAttrs: extended } = active.lines.get(active.ybase + active.y);
  const content = data[col * 3];
  if (col < 0 || content >>> 22 !== width || (content & HAS_CONTENT) === 0) return false;
  const both = new State();
  both.attributes(now.fg, now.bg, now.extended, core._oscLinkService);
  both.attributes(data[col * 3 + 1], data[col * 3 + 2], extended[col], core._oscLinkService);
  return both.sameFrom(0, both, both.length / 2, both.length / 2);
}

/** Whether the character set is one that was restored, and not on the screen that is shown. */
export function hidesCharset({ _charsetService: charsets, _bufferService: { buffers } }) {
  return charsets.charset !== charsets._charsets[charsets.glevel] && charsets.charset !== buffers.active.savedCharset;
}

/**
 * Whether the cursor is where nothing but the past can bring it: with origin mode outside of the region (it came from
 * the other screen), or to the right of an empty last cell (the line was scrolled there under it).
 */
export function stranded({ coreService, cols, _bufferService: { buffers: { active } } }) {
  const { x, y, scrollTop, scrollBottom, ybase, lines } = active;
  if (coreService.decPrivateModes.origin && (y < scrollTop || y > scrollBottom)) return true;
  if (x < cols) return false;
  const { _data: data } = lines.get(ybase + y);
  const [content, fg, bg] = data.subarray(cols * 3 - 3, cols * 3);
  if (content & HAS_CONTENT || content >>> 22 !== 1) return false;
  // An empty line is different: all of it can be erased from there.
  const erased = fg === 0 && (bg & 0xfc000000) === 0;
  for (let i = 0; erased && i < cols * 3; i += 3) if (data[i] !== content || data[i + 1] !== fg || data[i + 2] !== bg) return true;
  return !erased;
}

/** Grows as needed, so that thousands of readings share their memory. */
export class State {
  constructor(room = 16) {
    this.numbers = new Int32Array(room);
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
      if (a[at + i] !== b[otherAt + i] && a[at + i] !== ANYTHING && b[otherAt + i] !== ANYTHING) return false;
    }
    return true;
  }

  /** `above`: how many lines over the screen are looked at. */
  read(emulator, above) {
    this.length = 0;
    this.sections.length = 0;
    const { core } = emulator;
    const { active, normal, alt } = core._bufferService.buffers;
    const links = core._oscLinkService;
    this.scalars(emulator);
    this.buffer(active, 'active screen', core, links, active === normal ? above : 0);
    this.remembered(active, 'active screen', core);
    if (active === alt) {
      this.buffer(normal, 'main screen below', core, links, above);
      this.remembered(normal, 'main screen below', core);
      // It decides what a resize does with that screen.
      this.begin('row of the cursor on the main screen below', 'number');
      this.put(normal.y);
    } else {
      // The alternate screen is empty while it is not shown; only what was saved there stays.
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
      this.put(place(value));
    };
    number('columns', core.cols);
    number('rows', core.rows);
    number('alternate screen is shown', active === alt ? 1 : 0);
    const lost = stranded(core);
    number('cursor column (columns = wrap is pending)', lost ? ANYTHING : active.x);
    number('cursor row', lost ? ANYTHING : active.y);
    number('cursor is hidden', isCursorHidden ? 1 : 0);
    for (const [name, value] of Object.entries(decPrivateModes)) text(`mode ${name}`, String(value));
    number('insert mode', modes.insertMode ? 1 : 0);
    number('line feed is new line (LNM)', core.options.convertEol ? 1 : 0);
    number('blinking cursor (?12)', core.options.cursorBlink ? 1 : 0);
    text('mouse protocol', core.coreMouseService.activeProtocol);
    text('mouse encoding', core.coreMouseService.activeEncoding);
    // Control characters in a title mean nothing, and some clients take them for something.
    text('title', title.replace(/[\x00-\x1f\x7f-\x9f]/g, ''));
    text('colours (OSC 4, 10, 11, 12)', [...colours].sort(([a], [b]) => a - b).map((pair) => pair.join('=')).join(' '));
    const charsets = core._charsetService;
    number('character set', charset(charsets.charset));
    number('shift (GL)', charsets.glevel);
    const hidden = hidesCharset(core) ? charsets.glevel : -1;
    for (let g = 0; g < 4; g += 1) number(`G${g}`, g === hidden ? ANYTHING : charset(charsets._charsets[g]));
    number('state of the parser', parser.currentState);
    number('width of the character before (for combining and REP)', joins(core) ? (parser.precedingJoinState >> 1) & 3 : ANYTHING);
    this.begin('attributes of the next text', 'attributes');
    this.attributes(attributes.fg, attributes.bg, attributes.extended, core._oscLinkService);
    number('underline colour of the next text', colour(attributes.extended.underlineColor));
  }

  buffer(buffer, name, core, links, above) {
    const { cols, rows } = core;
    const over = Math.min(above, buffer.ybase);
    for (let row = -over; row < rows; row += 1) {
      const line = buffer.lines.get(buffer.ybase + row);
      this.begin(row < 0 ? `${name}, line ${-row} above` : `${name}, row ${row}`, 'line', cols);
      // Whether the first one goes on a line that nobody asked for cannot be seen.
      this.put(row > -over && line.isWrapped ? 1 : 0);
      const data = line._data;
      for (let col = 0; col < cols; col += 1) {
        const content = data[col * 3];
        if (col === cols - 1 && (content & WIDTH) === WIDE) {
          for (let i = 0; i < CELL; i += 1) this.put(ANYTHING);
          continue;
        }
        this.put(content & CONTENT_IS_COMBINED ? -1 - ((content & WIDTH) | place(line._combined[col])) : content);
        this.attributes(data[col * 3 + 1], data[col * 3 + 2], line._extendedAttrs[col], links);
      }
    }
  }

  /** Three numbers: foreground and flags, background and flags, underline and link. */
  attributes(fg, bg, extended, links) {
    this.put(colour(fg & ~FG_UNDERLINE));
    this.put(colour(bg & ~BG_HAS_EXTENDED));
    if (!(bg & BG_HAS_EXTENDED)) {
      this.put(fg & FG_UNDERLINE ? place(underline(1, 0)) : 0);
      return;
    }
    // The style a link covers (xterm.js shows links dashed) is still there when the link is not.
    const style = (extended._ext & 0x1c000000) >> 26;
    const link = extended.urlId ? links.getLinkData(extended.urlId) : undefined;
    if (extended.urlId && !link) this.put(ANYTHING);
    else if (!link && style === 0) this.put(0);
    else this.put(place(underline(style, extended.underlineColor) + (link ? ` link ${link.uri} id=${idOf(link)}` : '')));
  }

  remembered(buffer, name, core) {
    this.begin(`scroll region of ${name}`, 'numbers');
    this.put(buffer.scrollTop);
    this.put(buffer.scrollBottom);
    this.begin(`tab stops of ${name}`, 'stops');
    for (let col = 0; col < core.cols; col += 1) this.put(buffer.tabs[col] ? 1 : 0);
    this.saved(buffer, name, core);
  }

  /** As a DECRC would bring it back now. */
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

/** The four numbers of a cell, for people. */
export function cellAt(numbers, at) {
  const [content, fg, bg, more] = numbers.subarray(at, at + CELL);
  if (content === ANYTHING) return { text: '', width: 1, attributes: 'anything' };
  const joined = content < 0;
  const whole = joined ? -1 - content : content;
  const code = whole & 0x1fffff;
  return {
    text: joined ? texts[code] : code === 0 ? '' : String.fromCodePoint(code),
    width: whole >>> 22,
    attributes: attributesAt(fg, bg, more),
  };
}

export function attributesAt(fg, bg, more) {
  return `fg ${hex(fg)} bg ${hex(bg)}${more === ANYTHING ? ' forgotten link' : more ? ` ${texts[more]}` : ''}`;
}
