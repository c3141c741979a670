import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Sessions } from '../checked/state/sessions.js';

const info = (id, createdAtMs, status = 'idle') => ({ id, createdAtMs, status });

test('sessions follow events', async () => {
  const sessions = new Sessions({ sessions: async () => [info('a', 1), info('b', 2)] });
  const notified = [];
  sessions.onChange((event) => notified.push(event?.type));
  await sessions.load();
  sessions.apply({ type: 'session.created', session: info('c', 3) });
  sessions.apply({ type: 'session.updated', session: info('a', 1, 'busy') });
  sessions.apply({ type: 'session.deleted', session: info('b', 2, 'exited') });
  assert.deepEqual(
    sessions.all().map(({ id, status }) => [id, status]),
    [
      ['a', 'busy'],
      ['c', 'idle'],
    ],
  );
  assert.deepEqual(notified, [undefined, 'session.created', 'session.updated', 'session.deleted']);
});

test('a created session is added unless its event has arrived', () => {
  const sessions = new Sessions({});
  sessions.apply({ type: 'session.updated', session: info('a', 1, 'busy') });
  sessions.add(info('a', 1));
  sessions.add(info('b', 2));
  assert.deepEqual(
    sessions.all().map(({ id, status }) => [id, status]),
    [
      ['a', 'busy'],
      ['b', 'idle'],
    ],
  );
});
