// Bytes that reveal hidden state of a terminal. Each probe is written to both terminals, which are then compared again.
//
// A saved row moves up with every line that scrolls while xterm.js has capacity above the screen, and stays when it has
// none. The subject has more capacity than the reference, so nothing may scroll before the saved cursor is probed.

import { canJoinLastCharacter, hasHiddenCharset, isCursorUnreachable } from './state.mjs';

const CAN = '\x18';
const GROUND = 0;
const CLEAR_HIDDEN_STATE = '\x1b[?6l\x1b(B\x1b)B\x1b*B\x1b+B\x0f';

/** Sequences of probes. Within one, no probe depends on state that an earlier one changes. */
const PROBE_SEQUENCES = [
  [
    ['combining and repeated characters', '\u0301\x1b[3b'],
    ['text with current attributes, character set and link', 'aqx#~字\x1b[Kz'],
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

/** The bytes that the program itself printed next are the most realistic probe. */
const NEXT_BYTES = 600;

/** Yields [name, bytes] in the order in which to write them. */
export function* probes(random, stream, cut, reference) {
  const { core } = reference;
  const hasUnrestorableState = !canJoinLastCharacter(core) || hasHiddenCharset(core) || isCursorUnreachable(core);
  // State that a repaint cannot express is made equal on both sides.
  if (hasUnrestorableState) yield ['clearing hidden state', Buffer.from(`${CAN}${CLEAR_HIDDEN_STATE}`)];
  else if (random.below(2) === 0) {
    const resize = stream.resizes.find(({ offset }) => offset > cut);
    const end = Math.min(cut + NEXT_BYTES, resize ? resize.offset : stream.bytes.length);
    yield [`the next ${end - cut} bytes`, stream.bytes.subarray(cut, end)];
  }
  // Inside an escape sequence the parser would swallow the probe.
  if (core._inputHandler._parser.currentState !== GROUND) yield ['the end of a sequence', Buffer.from(CAN)];
  for (const [name, text] of PROBE_SEQUENCES[random.below(PROBE_SEQUENCES.length)]) {
    const { active, alt } = core._bufferService.buffers;
    const screen = { cols: core.cols, rows: core.rows, alternate: active === alt };
    yield [name, Buffer.from(typeof text === 'function' ? text(screen) : text)];
  }
}
