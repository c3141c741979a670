import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseAnsi, PLAIN } from '../checked/logs/ansi.js';
import { LineSplitter } from '../checked/logs/line_splitter.js';

const encode = (text) => new TextEncoder().encode(text);
/** The lines after all chunks are added. */
function splitLines(...chunks) {
  const splitter = new LineSplitter();
  const lines = [];
  for (const chunk of chunks) {
    for (const { isNew, text } of splitter.add(typeof chunk === 'string' ? encode(chunk) : chunk)) {
      if (isNew) lines.push(text);
      else lines[lines.length - 1] = text;
    }
  }
  return lines;
}
const plainText = (line) =>
  parseAnsi(line, PLAIN)
    .parts.map(({ text }) => text)
    .join('');

test('lines are split independently of chunk boundaries', () => {
  assert.deepEqual(splitLines('one\ntwo\n'), ['one', 'two']);
  assert.deepEqual(splitLines('o', 'ne', '\n', 'two'), ['one', 'two']);
  assert.deepEqual(splitLines('a\n\nb\n'), ['a', '', 'b']);
  assert.deepEqual(splitLines('a\r\nb\r', '\nc'), ['a', 'b', 'c']);
});

test('a character may be split over two chunks', () => {
  const bytes = encode('ü\n');
  assert.deepEqual(splitLines(bytes.slice(0, 1), bytes.slice(1)), ['ü']);
});

test('a carriage return restarts the line', () => {
  assert.deepEqual(splitLines('10%\r', '20%\r', '30%\ndone\n'), ['30%', 'done']);
});

test('a very long line is broken', () => {
  const lines = splitLines('x'.repeat(40_000));
  assert.ok(lines.length >= 3 && lines.join('').length === 40_000);
});

test('colours become classes and continue on the next line', () => {
  const { parts, style } = parseAnsi('a\x1b[1;31mb\x1b[0mc\x1b[92md', PLAIN);
  assert.deepEqual(parts, [
    { text: 'a', classes: [] },
    { text: 'b', classes: ['fg-1', 'bold'] },
    { text: 'c', classes: [] },
    { text: 'd', classes: ['fg-10'] },
  ]);
  assert.deepEqual(parseAnsi('e', style).parts, [{ text: 'e', classes: ['fg-10'] }]);
});

test('parameters of large palettes are not read as other codes', () => {
  assert.deepEqual(parseAnsi('\x1b[38;2;1;2;3;1mx', PLAIN).parts, [{ text: 'x', classes: ['bold'] }]);
  assert.deepEqual(parseAnsi('\x1b[38;5;3mx', PLAIN).parts, [{ text: 'x', classes: ['fg-3'] }]);
});

test('other control sequences are removed', () => {
  assert.equal(plainText('\x1b[2K\x1b]0;title\x07ok\x1b]8;;http://x\x1b\\link\x1b(B\x07\x00!'), 'oklink!');
  assert.equal(plainText('a\tb'), 'a\tb');
});
