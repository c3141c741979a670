// Repaints: at the start of an attachment, after gaps and after lost connections.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OutliveError } from '../dist/index.js';
import { scripted } from './support/scripted.mjs';
import { until } from './support/server.mjs';

/** Reads up to the next item of the given type. */
async function find(attachment, type) {
  for (;;) {
    const { value, done } = await attachment.next();
    assert.ok(!done, `it ended without ${type}`);
    if (value.type === type) return value;
  }
}
const text = ({ bytes }) => Buffer.from(bytes).toString();

test('a repaint is one item, and its bytes count in no offset', async () => {
  const server = await scripted();
  const attachment = server.process.attach({ screen: true, scrollback: 50, windowBytes: 4096 });
  const connection = await server.next();
  assert.deepEqual(
    [connection.query.screen, connection.query.scrollback, connection.query.from],
    ['true', '50', undefined],
  );
  connection
    .ready(1000)
    .repaint(1000, ['\x1bcfirst ', 'second'], { cols: 100, rows: 30, approximate: true })
    .bytes('live');
  const repaint = await find(attachment, 'repaint');
  assert.equal(text(repaint), '\x1bcfirst second');
  assert.deepEqual([repaint.offset, repaint.cols, repaint.rows, repaint.approximate], [1000, 100, 30, true]);
  const output = await find(attachment, 'output');
  assert.deepEqual([output.offset, text(output)], [1000, 'live']);
  void attachment.next();
  await until('consumed bytes are acknowledged', () =>
    connection.received.some(({ type, offset }) => type === 'ack' && offset === 1004),
  );
  attachment.close();
});

test('an empty repaint is delivered', async () => {
  const server = await scripted();
  const attachment = server.process.attach({ screen: true });
  (await server.next()).ready(7).repaint(7, []).bytes('x');
  assert.equal((await find(attachment, 'repaint')).bytes.length, 0);
  assert.equal((await find(attachment, 'output')).offset, 7);
  attachment.close();
});

test('a connection lost after a repaint resumes at the exact byte', async () => {
  const server = await scripted();
  const attachment = server.process.attach({ screen: true, scrollback: 9 });
  const first = await server.next();
  first.ready(10).repaint(10, ['screen']).bytes('abc');
  await find(attachment, 'output');
  first.lose();
  const second = await server.next();
  assert.deepEqual([second.query.from, second.query.screen, second.query.scrollback], ['13', undefined, '9']);
  // Those bytes are no longer in the log: the server sends a gap and the current screen.
  second.ready(13).send({ type: 'gap', from: 13, to: 500 }).repaint(500, ['later']).bytes('more');
  assert.deepEqual(await find(attachment, 'gap'), { type: 'gap', from: 13, to: 500 });
  assert.equal(text(await find(attachment, 'repaint')), 'later');
  assert.equal((await find(attachment, 'output')).offset, 500);
  attachment.close();
});

test('a connection lost before the first repaint requests it again without a gap', async () => {
  const server = await scripted();
  const attachment = server.process.attach({ screen: true });
  const first = await server.next();
  first.ready(10).repaint(10, ['half'], { bytes: 100 });
  await find(attachment, 'connected');
  first.lose();
  const second = await server.next();
  assert.equal(second.query.screen, 'true');
  second.ready(40).repaint(40, ['whole']);
  const items = [];
  for await (const item of attachment) {
    items.push(item.type);
    if (item.type === 'repaint') break;
  }
  assert.deepEqual(items, ['reconnecting', 'connected', 'repaint']);
});

test('an incomplete repaint after a gap is requested again and the skipped bytes are a gap', async () => {
  const server = await scripted();
  const attachment = server.process.attach({ from: 0 });
  const first = await server.next();
  first.ready(0).bytes('abc').send({ type: 'gap', from: 3, to: 50 }).repaint(50, ['half'], { bytes: 100 });
  await find(attachment, 'gap');
  first.lose();
  const second = await server.next();
  assert.deepEqual([second.query.screen, second.query.from], ['true', undefined]);
  second.ready(60).repaint(60, ['whole']);
  assert.deepEqual(await find(attachment, 'gap'), { type: 'gap', from: 50, to: 60 });
  assert.equal((await find(attachment, 'repaint')).offset, 60);
  attachment.close();
});

test('a repaint is requested when the next byte is known to be gone', async () => {
  const server = await scripted();
  const attachment = server.process.attach({ screen: true });
  const first = await server.next();
  first.ready(0).repaint(0, ['screen']).bytes('abc');
  await find(attachment, 'output');
  server.info.outputStart = 200;
  first.lose();
  const second = await server.next();
  assert.deepEqual([second.query.screen, second.query.from], ['true', undefined]);
  second.ready(300).repaint(300, ['later']);
  assert.deepEqual(await find(attachment, 'gap'), { type: 'gap', from: 3, to: 300 });
  assert.equal((await find(attachment, 'repaint')).offset, 300);
  attachment.close();
});

test('an attachment that starts with bytes reports a gap and delivers the remaining bytes', async () => {
  const server = await scripted({ outputStart: 100 });
  const attachment = server.process.attach({ from: 0 });
  const first = await server.next();
  assert.deepEqual([first.query.from, first.query.screen], ['100', undefined]);
  first.ready(100).bytes('abc');
  assert.deepEqual(await find(attachment, 'gap'), { type: 'gap', from: 0, to: 100 });
  await find(attachment, 'output');
  // The reader has output now, to which later bytes could not be appended.
  server.info.outputStart = 200;
  first.lose();
  assert.equal((await server.next()).query.screen, 'true');
  attachment.close();
});

test('a resize while connecting is sent after ready', async () => {
  const server = await scripted();
  const attachment = server.process.attach({ size: { cols: 80, rows: 24 } });
  const connection = await server.next();
  attachment.resize({ cols: 100, rows: 30 });
  connection.ready(0);
  await until('the size arrives', () => connection.received.length > 0);
  assert.deepEqual(connection.received, [{ type: 'resize', cols: 100, rows: 30 }]);
  attachment.close();
});

test('no repaint is requested for a process on pipes', async () => {
  const server = await scripted({ tty: false });
  const attachment = server.process.attach({ screen: true, scrollback: 5 });
  const connection = await server.next();
  assert.deepEqual([connection.query.screen, connection.query.scrollback], [undefined, undefined]);
  connection.ready(0).exit(0);
  await find(attachment, 'exit');
});

test('screen: false is sent with every connection', async () => {
  const server = await scripted();
  const attachment = server.process.attach({ from: 0, screen: false });
  const first = await server.next();
  assert.equal(first.query.screen, 'false');
  first.ready(0).bytes('abc');
  await find(attachment, 'output');
  first.lose();
  const { query } = await server.next();
  assert.deepEqual([query.screen, query.from], ['false', '3']);
  attachment.close();
  assert.throws(() => server.process.attach({ from: 0, screen: true }), { code: 'invalid_value' });
});

test('with explicit acknowledgement only acknowledge() sends acks', async () => {
  const server = await scripted();
  const attachment = server.process.attach({ from: 0, acknowledge: 'explicit' });
  const connection = await server.next();
  connection.ready(0).bytes('abc', 'def').send({ type: 'resized', cols: 1, rows: 1 });
  await find(attachment, 'resized');
  attachment.acknowledge(3);
  await until('the ack arrives', () => connection.received.length > 0);
  assert.deepEqual(connection.received, [{ type: 'ack', offset: 3 }]);
  attachment.close();
});

test('a ticket is fetched for each connection until the source refuses', async () => {
  const server = await scripted();
  let count = 0;
  const ticket = async () => {
    count += 1;
    if (count === 2) throw new TypeError('the network is down');
    if (count === 4) throw new OutliveError('not_found', 'you are no longer in this room', 404);
    return `ticket-${count}`;
  };
  const attachment = server.process.attach({ from: 0, ticket });
  const first = await server.next();
  assert.equal(first.query.ticket, 'ticket-1');
  first.ready(0, { head: 12 });
  assert.equal((await find(attachment, 'connected')).head, 12);
  first.lose();
  const second = await server.next();
  assert.equal(second.query.ticket, 'ticket-3');
  second.ready(0).lose();
  await assert.rejects(find(attachment, 'exit'), { code: 'not_found' });
});
