// Characters that arrive split over several writes.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import headless from '@xterm/headless';
import { WriteQueue } from '../dist/write_queue.js';

const inputFilter = { beforeWrite() {}, afterParse() {} };

// Regression: xterm.js 6.0 lost a quotation mark that was split after 0x80.
test('characters written byte by byte are shown', async () => {
  const emulator = new headless.Terminal({ cols: 40, rows: 2, allowProposedApi: true });
  const output = new WriteQueue(emulator, inputFilter);
  const bytes = new TextEncoder().encode('“quoted” – and 漢字 😀');
  await Promise.all(
    Array.from(bytes, (byte) => new Promise((parsed) => output.write(Uint8Array.of(byte), false, parsed))),
  );
  assert.equal(emulator.buffer.active.getLine(0).translateToString(true), '“quoted” – and 漢字 😀');
});

test('long output is not split within a character', async () => {
  const emulator = new headless.Terminal({ cols: 80, rows: 2, scrollback: 10_000, allowProposedApi: true });
  const output = new WriteQueue(emulator, inputFilter);
  const text = 'x' + '—'.repeat(100_000);
  await new Promise((parsed) => output.write(new TextEncoder().encode(text), false, parsed));
  let shown = '';
  for (let line = 0; line < emulator.buffer.active.length; line += 1)
    shown += emulator.buffer.active.getLine(line).translateToString(true);
  assert.equal(shown.length, text.length);
});

test('a repaint drops an incomplete character', async () => {
  const emulator = new headless.Terminal({ cols: 40, rows: 2, allowProposedApi: true });
  const output = new WriteQueue(emulator, inputFilter);
  output.write(Uint8Array.of(0xe2, 0x80), false);
  output.repaint('\x1bcafter');
  await output.drained();
  assert.equal(emulator.buffer.active.getLine(0).translateToString(true), 'after');
});
