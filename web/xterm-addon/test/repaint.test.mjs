// Repaints at the start of a connection and after gaps.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { scripted } from '../../client/test/support/scripted.mjs';
import { until } from '../../client/test/support/server.mjs';
import { open, shown } from './support/terminal.mjs';

test('a repaint replaces the screen at its own size and live output follows', async () => {
  const server = await scripted();
  const { terminal, addon, states, sizes } = open();
  terminal.write('old content\r\n');
  addon.connect(server.process, { scrollback: 3 });
  const connection = await server.next();
  assert.deepEqual([connection.query.screen, connection.query.scrollback], ['true', '3']);
  connection
    .ready(100, { cols: 60, rows: 10 })
    .repaint(100, ['\x1bc', 'painted\r\n'], { cols: 60, rows: 10 })
    .bytes('live');
  await until('live output is shown', () => shown(terminal).includes('live'));
  assert.deepEqual(shown(terminal), ['painted', 'live']);
  assert.deepEqual([terminal.cols, terminal.rows], [60, 10]);
  assert.deepEqual(
    [states, sizes],
    [
      ['connecting', 'connected'],
      ['60x10', '60x10'],
    ],
  );
  assert.ok(!connection.received.some(({ type }) => type === 'resize'), 'the server size is not echoed');
});

test('a lost connection resumes at the same byte and a gap is followed by a repaint', async () => {
  const server = await scripted();
  const { terminal, addon, states, notices } = open();
  addon.connect(server.process);
  const first = await server.next();
  first.ready(0).repaint(0, ['\x1bcone ']).bytes('two');
  await until('the output is shown', () => shown(terminal)[0] === 'one two');
  first.lose();
  const second = await server.next();
  assert.equal(second.query.from, '3');
  second.ready(3).bytes(' three');
  await until('the output continues', () => shown(terminal)[0] === 'one two three');
  second.lose();
  const third = await server.next();
  third.ready(9).send({ type: 'gap', from: 9, to: 90 }).repaint(90, ['\x1bcfour'], { approximate: true });
  await until('the repaint is shown', () => shown(terminal)[0] === 'four');
  assert.deepEqual(states, ['connecting', 'connected', 'reconnecting', 'connected', 'reconnecting', 'connected']);
  assert.deepEqual(notices, ['gap', 'approximate']);
});

test('connecting to another process detaches from the first', async () => {
  const [one, other] = [await scripted(), await scripted()];
  const { terminal, addon } = open();
  addon.connect(one.process);
  const first = await one.next();
  first.ready(0).repaint(0, ['\x1bcone']);
  await until('the first is shown', () => shown(terminal)[0] === 'one');
  addon.connect(other.process);
  (await other.next()).ready(0).repaint(0, ['\x1bcother']);
  await until('the second is shown', () => shown(terminal)[0] === 'other');
  await until('the first connection is closed', () => first.received.some(({ type }) => type === 'close'));
});

test('disconnecting keeps the screen and reports the state once', async () => {
  const server = await scripted();
  const { terminal, addon, states } = open();
  addon.connect(server.process);
  (await server.next()).ready(0).repaint(0, ['\x1bckept']);
  await until('the repaint is shown', () => shown(terminal)[0] === 'kept');
  addon.disconnect();
  addon.disconnect();
  assert.deepEqual(states.at(-1), 'disconnected');
  assert.equal(states.filter((name) => name === 'disconnected').length, 1);
  assert.deepEqual(shown(terminal), ['kept']);
});
