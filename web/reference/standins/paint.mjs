// A program for the harness that uses xterm.js as its model and creates repaints from it.

import { createInterface } from 'node:readline';
import { Emulator } from '../emulator.mjs';
import { Player } from '../player.mjs';
import { FULL_RESET, paint } from './painter.mjs';

for await (const line of createInterface({ input: process.stdin })) respond(JSON.parse(line));

function respond({ bytes, cols, rows, resizes, cuts, scrollback }) {
  const stream = { bytes: Buffer.from(bytes, 'base64'), cols, rows, resizes };
  const offsets = resumableOffsets(stream);
  const model = new Player(new Emulator(cols, rows), stream);
  let painted;
  let withoutRepaint = 0;
  for (const cut of cuts) {
    const offset = offsets.findLast((candidate) => candidate <= cut);
    if (painted?.offset !== offset) {
      const { core } = model.to(offset);
      painted = { offset, cols: core.cols, rows: core.rows, repaint: paint(model.emulator, scrollback) };
    }
    // A repaint for an offset before a resize cannot be used after it: the resize depends on the lines above.
    const isResized = resizes.some((resize) => resize.offset > offset && resize.offset <= cut);
    const isUsable = painted.repaint && !isResized;
    if (!isUsable) withoutRepaint += 1;
    // Replaying the whole stream is always correct.
    const { repaint, ...rest } = isUsable ? painted : { offset: 0, cols, rows, repaint: Buffer.from(FULL_RESET) };
    console.log(JSON.stringify({ cut, ...rest, repaint: repaint.toString('base64') }));
  }
  console.error(`${withoutRepaint} of ${cuts.length} without a repaint`);
}

/** Offsets that are inside neither an escape sequence nor a character. */
function resumableOffsets(stream) {
  const player = new Player(new Emulator(stream.cols, stream.rows), stream);
  const offsets = [0];
  for (let offset = 1; offset <= stream.bytes.length; offset += 1) {
    const { core, held } = player.to(offset);
    if (core._inputHandler._parser.currentState === 0 && held.length === 0) offsets.push(offset);
  }
  return offsets;
}
