import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readFragment, shareLink } from '../checked/access/fragment.js';

test('a_fragment_is_a_token_a_share_or_nothing', () => {
  assert.deepEqual(readFragment('#token=abc-_123'), { kind: 'token', token: 'abc-_123' });
  assert.deepEqual(readFragment('#ticket=t&process=proc_1'), { kind: 'ticket', ticket: 't', process: 'proc_1' });
  assert.deepEqual(readFragment('#ticket=t'), { kind: 'none' });
  assert.deepEqual(readFragment('#token='), { kind: 'none' });
  assert.deepEqual(readFragment(''), { kind: 'none' });
});

test('what_is_shared_is_what_is_read', () => {
  const link = new URL(shareLink('http://127.0.0.1:2468/ui', 'a+b/c=&', 'tag:odd name&#'));
  assert.equal(link.pathname, '/ui');
  assert.equal(link.search, '', 'nothing of it goes to the server');
  assert.deepEqual(readFragment(link.hash), { kind: 'ticket', ticket: 'a+b/c=&', process: 'tag:odd name&#' });
});
