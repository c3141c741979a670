// A program to test the harness with: its repaint is the stream from the beginning, which is always correct.
// With `--lose DETAIL` the repaint loses one detail, and the harness must notice.

import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { Emulator } from '../emulator.mjs';

/** RIS, followed by sequences for state that it does not reset. */
const FULL_RESET = '\x1bc\x1b[20l\x1b[?12l\x1b[?25h\x1b]2;\x07\x1b]104\x07\x1b]110\x07\x1b]111\x07\x1b]112\x07';
const ERASE_LINES_ABOVE = '\x1b[3J';

/**
 * Sequences that spoil a correct repaint; x and y are the cursor position. `byte` instead reports an offset that is one
 * byte too high.
 */
const LOSSES = {
  byte: () => '',
  attributes: () => '\x1b[m',
  cell: ({ x, y }) => `\x1b[1;3Hx\x1b[${y + 1};${x + 1}H`,
  charset: () => '\x1b)B\x1b(B\x0f',
  cursor: () => '\x1b[C',
  hidden: () => '\x1b[?25h',
  link: () => '\x1b]8;;\x07',
  modes: () => '\x1b[?1;1004;1006;2004;1000l\x1b[4l',
  palette: () => '\x1b]104\x07\x1b]111\x07',
  region: ({ x, y }) => `\x1b[r\x1b[${y + 1};${x + 1}H`,
  saved: () => '\x1b7',
  tabs: () => '\x1b[3g',
  title: () => '\x1b]2;lost\x07',
  screen: ({ x, y }) => `\x1b[H\x1b[J\x1b[${y + 1};${x + 1}H`,
  // A line feed that does not scroll marks the next line as not wrapped.
  wrapped: ({ x, y, rows }) => `\x1b[H${'\n'.repeat(rows - 1)}\x1b[${y + 1};${x + 1}H`,
};

const { values } = parseArgs({ options: { lose: { type: 'string' }, list: { type: 'boolean' } } });
if (values.list) console.log(Object.keys(LOSSES).join('\n'));
const spoil = values.lose ? LOSSES[values.lose] : () => '';
if (!values.list) for await (const line of createInterface({ input: process.stdin })) respond(JSON.parse(line));

function respond({ bytes, cols, rows, resizes, cuts, scrollback }) {
  const stream = Buffer.from(bytes, 'base64');
  // A resize needs the lines above the screen. From the first resize on, and with scrollback, all bytes are replayed
  // live.
  const end = scrollback > 0 ? 0 : Math.min(stream.length, ...resizes.map(({ offset }) => offset - 1));
  const positions = resumablePositions(stream, cols, rows, end);
  for (const cut of cuts) {
    const { offset, x, y } = cut > end ? positions[0] : positions.findLast((position) => position.offset <= cut);
    const repaint = Buffer.concat([
      Buffer.from(FULL_RESET),
      stream.subarray(0, offset),
      Buffer.from(ERASE_LINES_ABOVE),
      Buffer.from(spoil({ x, y, rows })),
    ]);
    const reportedOffset = values.lose === 'byte' && offset < cut ? offset + 1 : offset;
    console.log(JSON.stringify({ cut, offset: reportedOffset, cols, rows, repaint: repaint.toString('base64') }));
  }
}

/** Positions at which ERASE_LINES_ABOVE has no other effect. */
function resumablePositions(stream, cols, rows, end) {
  const emulator = new Emulator(cols, rows);
  const { core } = emulator;
  const positions = [{ offset: 0, x: 0, y: 0 }];
  for (let offset = 1; offset <= end; offset += 1) {
    emulator.write(stream.subarray(offset - 1, offset));
    const { _parser: parser } = core._inputHandler;
    const { active, normal } = core._bufferService.buffers;
    const isBetweenCharacters =
      parser.currentState === 0 && parser.precedingJoinState === 0 && emulator.held.length === 0;
    // The sequence also moves a saved cursor and one beyond the edge or the region, and fails on the alternate screen.
    const isCursorInside = normal.x <= cols && !core.coreService.decPrivateModes.origin;
    const hasNoSideEffect = active === normal && isCursorInside && (normal.ybase === 0 || normal.savedY === 0);
    if (isBetweenCharacters && hasNoSideEffect) positions.push({ offset, x: normal.x, y: normal.y });
  }
  return positions;
}
