// Order of input around a connection that becomes ready.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { scripted } from './support/scripted.mjs';
import { until } from './support/server.mjs';

test('input written before the connection is ready is sent first', async () => {
  const server = await scripted();
  const attachment = server.process.attach();
  attachment.write('before ');
  const connection = await server.next();
  // When this frame has arrived, the socket is open.
  connection.send({ type: 'error', code: 'not_yet', message: 'wait' });
  assert.equal((await attachment.next()).value.code, 'not_yet');
  attachment.write('between ');
  connection.ready(0);
  assert.equal((await attachment.next()).value.type, 'connected');
  attachment.write('after');
  await until('all input has arrived', () => connection.received.join('').endsWith('after'));
  assert.equal(connection.received.join(''), 'before between after');
  attachment.close();
});
