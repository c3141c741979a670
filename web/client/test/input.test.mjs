// What is typed while connections come and go.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { scripted } from './support/scripted.mjs';
import { until } from './support/server.mjs';

test('what was typed before the connection was ready is not overtaken', async () => {
  const server = await scripted();
  const attachment = server.process.attach();
  attachment.write('before ');
  const connection = await server.next();
  // Once this has come, the socket is open.
  connection.say({ type: 'error', code: 'not_yet', message: 'wait' });
  assert.equal((await attachment.next()).value.code, 'not_yet');
  attachment.write('between ');
  connection.ready(0);
  assert.equal((await attachment.next()).value.type, 'connected');
  attachment.write('after');
  await until('all of it came', () => connection.received.join('').endsWith('after'));
  assert.equal(connection.received.join(''), 'before between after');
  attachment.close();
});
