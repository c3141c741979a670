// A program for the harness: xterm.js as the model, and repaints made from it.

import { createInterface } from 'node:readline';
import { Emulator } from '../emulator.mjs';
import { Player } from '../player.mjs';
import { AS_NEW, paint } from './painter.mjs';

for await (const line of createInterface({ input: process.stdin })) answer(JSON.parse(line));

function answer({ bytes, cols, rows, resizes, cuts, scrollback }) {
  const stream = { bytes: Buffer.from(bytes, 'base64'), cols, rows, resizes };
  const places = placesToGoOn(stream);
  const model = new Player(new Emulator(cols, rows), stream);
  let painted;
  let without = 0;
  for (const cut of cuts) {
    const offset = places.findLast((place) => place <= cut);
    if (painted?.offset !== offset) {
      const { core } = model.to(offset);
      painted = { offset, cols: core.cols, rows: core.rows, repaint: paint(model.emulator, scrollback) };
    }
    // Bytes that are before a resize have made something of the screen that it changed: there is no way back to them.
    const resized = resizes.some((resize) => resize.offset > offset && resize.offset <= cut);
    const usable = painted.repaint && !resized;
    if (!usable) without += 1;
    // Everything from the beginning is always right.
    const { repaint, ...about } = usable ? painted : { offset: 0, cols, rows, repaint: Buffer.from(AS_NEW) };
    console.log(JSON.stringify({ cut, ...about, repaint: repaint.toString('base64') }));
  }
  console.error(`${without} of ${cuts.length} without a repaint`);
}

/** Offsets between sequences and characters. */
function placesToGoOn(stream) {
  const player = new Player(new Emulator(stream.cols, stream.rows), stream);
  const places = [0];
  for (let offset = 1; offset <= stream.bytes.length; offset += 1) {
    const { core, held } = player.to(offset);
    if (core._inputHandler._parser.currentState === 0 && held.length === 0) places.push(offset);
  }
  return places;
}
