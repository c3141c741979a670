// A program for the harness to be tested with: its repaint is the stream from the beginning, which is right by itself.
// With `--lose THING` it forgets one thing, and the harness must find out.

import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { Emulator } from '../emulator.mjs';

/** A reset does not reach these. */
const AS_NEW = '\x1bc\x1b[20l\x1b[?12l\x1b[?25h\x1b]2;\x07\x1b]104\x07\x1b]110\x07\x1b]111\x07\x1b]112\x07';
const WITHOUT_LINES_ABOVE = '\x1b[3J';

/** What is written after a right repaint to spoil it; x and y are where the cursor is. A lost byte is told as seen. */
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
  // A line feed that does not scroll says that the line it goes to is a new one.
  wrapped: ({ x, y, rows }) => `\x1b[H${'\n'.repeat(rows - 1)}\x1b[${y + 1};${x + 1}H`,
};

const { values } = parseArgs({ options: { lose: { type: 'string' }, list: { type: 'boolean' } } });
if (values.list) console.log(Object.keys(LOSSES).join('\n'));
const spoil = values.lose ? LOSSES[values.lose] : () => '';
if (!values.list) for await (const line of createInterface({ input: process.stdin })) answer(JSON.parse(line));

function answer({ bytes, cols, rows, resizes, cuts, scrollback }) {
  const stream = Buffer.from(bytes, 'base64');
  // A resize needs the lines above the screen; then, and when they are asked for, everything comes as live bytes.
  const end = scrollback > 0 ? 0 : Math.min(stream.length, ...resizes.map(({ offset }) => offset - 1));
  const places = placesToGoOn(stream, cols, rows, end);
  for (const cut of cuts) {
    const { offset, x, y } = cut > end ? places[0] : places.findLast((place) => place.offset <= cut);
    const repaint = Buffer.concat([
      Buffer.from(AS_NEW), stream.subarray(0, offset), Buffer.from(WITHOUT_LINES_ABOVE), Buffer.from(spoil({ x, y, rows })),
    ]);
    const told = values.lose === 'byte' && offset < cut ? offset + 1 : offset;
    console.log(JSON.stringify({ cut, offset: told, cols, rows, repaint: repaint.toString('base64') }));
  }
}

/** Offsets at which WITHOUT_LINES_ABOVE changes nothing but what it is there for. */
function placesToGoOn(stream, cols, rows, end) {
  const emulator = new Emulator(cols, rows);
  const { core } = emulator;
  const places = [{ offset: 0, x: 0, y: 0 }];
  for (let offset = 1; offset <= end; offset += 1) {
    emulator.write(stream.subarray(offset - 1, offset));
    const { _parser: parser } = core._inputHandler;
    const { active, normal } = core._bufferService.buffers;
    const between = parser.currentState === 0 && parser.precedingJoinState === 0 && emulator.held.length === 0;
    // It also moves a saved cursor and one beyond the edge or the region, and does not work on the other screen.
    const within = normal.x <= cols && !core.coreService.decPrivateModes.origin;
    const harmless = active === normal && within && (normal.ybase === 0 || normal.savedY === 0);
    if (between && harmless) places.push({ offset, x: normal.x, y: normal.y });
  }
  return places;
}
