// Tickets for browsers' sockets.

import assert from 'node:assert/strict';
import { check } from '../../_shared/frame.mjs';
import { startServer } from '../../_shared/server.mjs';
import { basic, data, nativeId, refused } from '../support.mjs';

const asked = { headers: { 'x-opencode-ticket': '1' } };

check('ticket_opens_one_socket_once', async (t) => {
  const pty = await t.pty('echo hi; exec cat');
  const { ticket, expires_in: expiresIn } = data(await t.second.pty.connectToken({ ptyID: pty.id }, asked));
  assert.equal(expiresIn, 60);
  await (await t.connect(pty.id, { query: { ticket } })).until('hi');
  await assert.rejects(t.socket(pty.id, { query: { ticket } }).opened, { status: 403 });
  await assert.rejects(t.socket(pty.id, { query: { ticket: 'made-up' } }).opened, { status: 403 });
});

check('ticket_needs_its_header_before_all_else', async (t) => {
  const pty = await t.pty('exec cat');
  for (const ptyID of [pty.id, 'pty_nobody']) {
    const error = refused(await t.second.pty.connectToken({ ptyID }), 403);
    assert.deepEqual(error, { _tag: 'PtyForbiddenError', message: 'Invalid PTY connect token request' });
  }
  assert.equal(refused(await t.second.pty.connectToken({ ptyID: 'pty_nobody' }, asked), 404)._tag, 'PtyNotFoundError');
});

check('ticket_is_for_its_terminal_and_decides_alone', async (t) => {
  const server = await startServer(['--token', 's3cret']);
  t.atEnd.push(() => server.stop());
  const url = `${server.url}/opencode`;
  const headers = { authorization: `Basic ${basic('s3cret')}` };
  const client = t.secondWith({ baseUrl: url, headers });
  const [one, two] = [data(await client.pty.create({ command: 'cat' })), data(await client.pty.create({ command: 'cat' }))];
  const mint = async () => data(await client.pty.connectToken({ ptyID: one.id }, asked)).ticket;
  await (await t.connect(one.id, { url, query: { ticket: await mint() } })).ready();
  await assert.rejects(t.socket(two.id, { url, query: { ticket: await mint() } }).opened, { status: 403 });
  await assert.rejects(t.socket(one.id, { url, headers, query: { ticket: 'made-up' } }).opened, { status: 403 }, 'also with a good token beside it');
  await assert.rejects(t.socket(one.id, { url }).opened, { status: 401 });
  assert.equal(nativeId(one.id).slice(0, 5), 'proc_');
});
