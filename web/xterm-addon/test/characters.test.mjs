// What the emulator does with characters that arrive in parts.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import headless from '@xterm/headless';
import { Screen } from '../dist/screen.js';

const typing = { begin() {}, parsed() {} };

test('a_quote_that_was_cut_in_two_was_lost', async () => {
  const emulator = new headless.Terminal({ cols: 40, rows: 2, allowProposedApi: true });
  const screen = new Screen(emulator, typing);
  const bytes = new TextEncoder().encode('“quoted” – and 漢字 😀');
  // Every character in parts, and each part taken by itself.
  await Promise.all(Array.from(bytes, (byte) => new Promise((taken) => screen.write(Uint8Array.of(byte), false, taken))));
  assert.equal(emulator.buffer.active.getLine(0).translateToString(true), '“quoted” – and 漢字 😀');
});

test('what_is_long_is_not_cut_within_a_character', async () => {
  const emulator = new headless.Terminal({ cols: 80, rows: 2, scrollback: 10_000, allowProposedApi: true });
  const screen = new Screen(emulator, typing);
  const text = 'x' + '—'.repeat(100_000);
  await new Promise((taken) => screen.write(new TextEncoder().encode(text), false, taken));
  let shown = '';
  for (let line = 0; line < emulator.buffer.active.length; line += 1) shown += emulator.buffer.active.getLine(line).translateToString(true);
  assert.equal(shown.length, text.length);
});

test('a_repaint_ends_what_was_begun', async () => {
  const emulator = new headless.Terminal({ cols: 40, rows: 2, allowProposedApi: true });
  const screen = new Screen(emulator, typing);
  screen.write(Uint8Array.of(0xe2, 0x80), false);
  screen.repaint('\x1bcafter');
  await screen.settled();
  assert.equal(emulator.buffer.active.getLine(0).translateToString(true), 'after');
});
