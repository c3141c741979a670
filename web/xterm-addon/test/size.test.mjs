// The effective size and requests to change it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { scripted } from '../../client/test/support/scripted.mjs';
import { until } from '../../client/test/support/server.mjs';
import { open, shown } from './support/terminal.mjs';

const resizes = ({ received }) =>
  received.filter(({ type }) => type === 'resize').map(({ cols, rows }) => `${cols}x${rows}`);

async function connected(info) {
  const server = await scripted(info);
  const opened = open();
  opened.addon.connect(server.process);
  const connection = await server.next();
  connection.ready(0).repaint(0, ['\x1bcready']);
  await until('the repaint is shown', () => shown(opened.terminal)[0] === 'ready');
  return { ...opened, connection };
}

test('a local resize is sent; a size from the server is applied and not sent back', async () => {
  const { terminal, connection, sizes } = await connected();
  assert.deepEqual([connection.query.cols, connection.query.rows], ['80', '24']);
  terminal.resize(100, 30);
  await until('the resize arrives', () => resizes(connection).length === 1);
  connection.send({ type: 'resized', cols: 40, rows: 12 });
  await until('the server size is applied', () => terminal.cols === 40 && terminal.rows === 12);
  terminal.resize(90, 20);
  await until('the next resize arrives', () => resizes(connection).length > 1);
  assert.deepEqual(resizes(connection), ['100x30', '90x20']);
  assert.equal(sizes.at(-1), '40x12');
  assert.equal(terminal.cols, 90, 'with the policy latest a request is applied immediately');
});

test('with another policy the emulator waits for the size from the server', async () => {
  const { terminal, connection } = await connected({ sizePolicy: 'smallest' });
  terminal.resize(100, 30);
  await until('the resize arrives', () => resizes(connection).length === 1);
  assert.deepEqual([terminal.cols, terminal.rows], [80, 24]);
  connection.send({ type: 'resized', cols: 100, rows: 30 });
  await until('the server size is applied', () => terminal.cols === 100);
  assert.deepEqual(resizes(connection), ['100x30']);
});

test('a resize is applied after the output that precedes it', async () => {
  const { terminal, connection } = await connected();
  // `999H` moves to the last column of the current size.
  connection.bytes('\x1bc\x1b[1;999Hx').send({ type: 'resized', cols: 120, rows: 24 }).bytes('\x1b[2;999Hy');
  await until('both lines are shown', () => shown(terminal).length === 2);
  assert.deepEqual(
    shown(terminal).map((line) => line.length),
    [80, 120],
  );
});
