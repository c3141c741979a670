// Whose size rules.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { scripted } from '../../client/test/support/scripted.mjs';
import { until } from '../../client/test/support/server.mjs';
import { open, shown } from './support/terminal.mjs';

const resizes = ({ received }) => received.filter(({ type }) => type === 'resize').map(({ cols, rows }) => `${cols}x${rows}`);

async function connected(info) {
  const server = await scripted(info);
  const opened = open();
  opened.addon.connect(server.process);
  const connection = await server.next();
  connection.ready(0).repaint(0, ['\x1bcready']);
  await until('it is there', () => shown(opened.terminal)[0] === 'ready');
  return { ...opened, connection };
}

test('a size that the user chose is told; one of somebody else is taken and not told', async () => {
  const { terminal, connection, sizes } = await connected();
  assert.deepEqual([connection.query.cols, connection.query.rows], ['80', '24']);
  terminal.resize(100, 30);
  await until('it is told', () => resizes(connection).length === 1);
  connection.say({ type: 'resized', cols: 40, rows: 12 });
  await until('it is taken', () => terminal.cols === 40 && terminal.rows === 12);
  terminal.resize(90, 20);
  await until('the next is told', () => resizes(connection).length > 1);
  assert.deepEqual(resizes(connection), ['100x30', '90x20']);
  assert.equal(sizes.at(-1), '40x12');
  assert.equal(terminal.cols, 90, 'with the policy latest a wish is granted');
});

test('where a wish may not be granted, the emulator waits for the answer', async () => {
  const { terminal, connection } = await connected({ sizePolicy: 'smallest' });
  terminal.resize(100, 30);
  await until('it is told', () => resizes(connection).length === 1);
  assert.deepEqual([terminal.cols, terminal.rows], [80, 24]);
  connection.say({ type: 'resized', cols: 100, rows: 30 });
  await until('it was granted', () => terminal.cols === 100);
  assert.deepEqual(resizes(connection), ['100x30']);
});

test('a size changes behind what was printed for the one before', async () => {
  const { terminal, connection } = await connected();
  // To the last column, whichever that is.
  connection.bytes('\x1bc\x1b[1;999Hx').say({ type: 'resized', cols: 120, rows: 24 }).bytes('\x1b[2;999Hy');
  await until('all is there', () => shown(terminal).length === 2);
  assert.deepEqual(shown(terminal).map((line) => line.length), [80, 120]);
});
