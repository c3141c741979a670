import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pieces, PLAIN } from '../checked/logs/escapes.js';
import { Lines } from '../checked/logs/lines.js';

const encode = (text) => new TextEncoder().encode(text);
/** The lines that one would see at the end. */
function seen(...parts) {
  const lines = new Lines();
  const shown = [];
  for (const part of parts) {
    for (const { isNew, text } of lines.add(typeof part === 'string' ? encode(part) : part)) {
      if (isNew) shown.push(text);
      else shown[shown.length - 1] = text;
    }
  }
  return shown;
}
const plain = (line) =>
  pieces(line, PLAIN)
    .pieces.map(({ text }) => text)
    .join('');

test('lines_end_where_they_end_however_they_come', () => {
  assert.deepEqual(seen('one\ntwo\n'), ['one', 'two']);
  assert.deepEqual(seen('o', 'ne', '\n', 'two'), ['one', 'two']);
  assert.deepEqual(seen('a\n\nb\n'), ['a', '', 'b']);
  assert.deepEqual(seen('a\r\nb\r', '\nc'), ['a', 'b', 'c']);
});

test('a_letter_may_come_in_two_pieces', () => {
  const bytes = encode('ü\n');
  assert.deepEqual(seen(bytes.slice(0, 1), bytes.slice(1)), ['ü']);
});

test('a_progress_bar_stays_in_its_line', () => {
  assert.deepEqual(seen('10%\r', '20%\r', '30%\ndone\n'), ['30%', 'done']);
});

test('a_line_without_end_is_broken', () => {
  const lines = seen('x'.repeat(40_000));
  assert.ok(lines.length >= 3 && lines.join('').length === 40_000);
});

test('colours_become_classes_and_go_on', () => {
  const { pieces: found, style } = pieces('a\x1b[1;31mb\x1b[0mc\x1b[92md', PLAIN);
  assert.deepEqual(found, [
    { text: 'a', classes: [] },
    { text: 'b', classes: ['fg-1', 'bold'] },
    { text: 'c', classes: [] },
    { text: 'd', classes: ['fg-10'] },
  ]);
  assert.deepEqual(pieces('e', style).pieces, [{ text: 'e', classes: ['fg-10'] }]);
});

test('large_palettes_do_not_spill_into_the_next_code', () => {
  assert.deepEqual(pieces('\x1b[38;2;1;2;3;1mx', PLAIN).pieces, [{ text: 'x', classes: ['bold'] }]);
  assert.deepEqual(pieces('\x1b[38;5;3mx', PLAIN).pieces, [{ text: 'x', classes: ['fg-3'] }]);
});

test('control_sequences_are_not_shown', () => {
  assert.equal(plain('\x1b[2K\x1b]0;title\x07ok\x1b]8;;http://x\x1b\\link\x1b(B\x07\x00!'), 'oklink!');
  assert.equal(plain('a\tb'), 'a\tb');
});
