// Bytes that bring out what a screen does not show. Each is written to both terminals and they are compared again.
//
// A saved row moves up with every line that scrolls while xterm.js has room above the screen, and stays when it has
// none; the subject has more room than the reference. So nothing may scroll before a saved cursor is looked at.

import { hidesCharset, joins, stranded } from './state.mjs';

const CAN = '\x18';
const GROUND = 0;
const NOTHING_HIDDEN = '\x1b[?6l\x1b(B\x1b)B\x1b*B\x1b+B\x0f';

/** Ways through the probes: what one of them changes the next one does not need. */
const WAYS = [
  [
    ['combining and repeated characters', '\u0301\x1b[3b'],
    ['text with the attributes, character set and link of now', 'aqx#~字\x1b[Kz'],
    ['shifts', '\x0elqk#\x0flqk#\x1bnx\x1box\x0f_'],
    ['combining again', '\u0301e\u0301\x1b[2b'],
    ['inserted text', '\r\x1b[4hins字\x1b[4l'],
    ['tab stops', ({ cols }) => `\r${'\t+'.repeat(cols)}\r\x1b[2I>\x1b[Z<`],
    ['wrapping', ({ cols }) => `\r${'w'.repeat(cols)}r${'字'.repeat(cols)}`],
    ['backspaces over the edge', '\b'.repeat(7)],
    ['line feeds', ({ rows }) => '\nd'.repeat(rows + 2)],
    ['reverse line feeds', ({ rows }) => '\x1bMu'.repeat(rows + 2)],
    ['blank lines and cells', '\x1b[2L\x1b[3@\x1b[S\x1b[T\x1b[2X'],
    ['home with origin mode', '\x1b[?6hH\x1b[99;99HE\x1b[?6lh'],
    ['attributes after colours end', '\x1b[39;49mc\x1b[4mu\x1b[mn'],
  ],
  [
    ['saved cursor', '\x1b8S'],
    ['saved cursor and another one', '\x1b7q\x1b[5;5H\x1b8t'],
    ['the other screen', ({ alternate }) => (alternate ? '\x1b[?1047lo' : '\x1b[?1047h\x1b8o')],
    ['its saved cursor', '\x1b8O'],
    ['and back', ({ alternate }) => (alternate ? '\x1b[?1047hb' : '\x1b[?1047lb')],
    ['line feeds there', ({ rows }) => '\nd'.repeat(rows + 2)],
    ['1049', '\x1b[?1049h!\x1b[?1049l?'],
    ['soft reset', '\x1b[!ps\x1b8S'],
  ],
];

/** What the program itself sent next is the best probe of all. */
const GOES_ON_BYTES = 600;

/** Yields [name, bytes] in the order in which they are to be written. */
export function* probes(random, stream, cut, reference) {
  const { core } = reference;
  const unfair = !joins(core) || hidesCharset(core) || stranded(core);
  // What a repaint cannot say is made the same on both sides.
  if (unfair) yield ['an end to what is hidden', Buffer.from(`${CAN}${NOTHING_HIDDEN}`)];
  else if (random.below(2) === 0) {
    const resize = stream.resizes.find(({ offset }) => offset > cut);
    const end = Math.min(cut + GOES_ON_BYTES, resize ? resize.offset : stream.bytes.length);
    yield [`the ${end - cut} bytes that come next`, stream.bytes.subarray(cut, end)];
  }
  // Within a sequence the parser would eat the probe.
  if (core._inputHandler._parser.currentState !== GROUND) yield ['the end of a sequence', Buffer.from(CAN)];
  for (const [name, text] of WAYS[random.below(WAYS.length)]) {
    const { active, alt } = core._bufferService.buffers;
    const about = { cols: core.cols, rows: core.rows, alternate: active === alt };
    yield [name, Buffer.from(typeof text === 'function' ? text(about) : text)];
  }
}
