import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readFragment, shareLink } from '../checked/access/credentials.js';

test('a fragment is a token, a ticket or neither', () => {
  assert.deepEqual(readFragment('#token=abc-_123'), { kind: 'token', token: 'abc-_123' });
  const ticket = { kind: 'ticket', ticket: 't', process: 'proc_1', isReusable: false };
  assert.deepEqual(readFragment('#ticket=t&process=proc_1'), ticket);
  assert.deepEqual(readFragment('#ticket=t'), { kind: 'none' });
  assert.deepEqual(readFragment('#token='), { kind: 'none' });
  assert.deepEqual(readFragment(''), { kind: 'none' });
});

test('a share link is read back unchanged', () => {
  for (const isReusable of [false, true]) {
    const shared = { ticket: 'a+b/c=&', process: 'tag:odd name&#', isReusable };
    const link = new URL(shareLink('http://127.0.0.1:2468/ui', shared));
    assert.equal(link.pathname, '/ui');
    assert.equal(link.search, '', 'the server does not see the ticket');
    assert.deepEqual(readFragment(link.hash), { kind: 'ticket', ...shared });
  }
});
