// Tickets for sockets of browsers.

import assert from 'node:assert/strict';
import { check } from '../../_shared/runner.mjs';
import { startServer } from '../../_shared/server.mjs';
import { basic, data, nativeId, expectError } from '../support.mjs';

const ticketOptions = { headers: { 'x-opencode-ticket': '1' } };

check('ticket_opens_one_socket_once', async (t) => {
  const pty = await t.pty('echo hi; exec cat');
  const { ticket, expires_in: expiresIn } = data(await t.sdkV2.pty.connectToken({ ptyID: pty.id }, ticketOptions));
  assert.equal(expiresIn, 60);
  await (await t.connect(pty.id, { query: { ticket } })).waitFor('hi');
  await assert.rejects(t.socket(pty.id, { query: { ticket } }).opened, { status: 403 });
  await assert.rejects(t.socket(pty.id, { query: { ticket: 'made-up' } }).opened, { status: 403 });
});

check('ticket_request_needs_its_header_first', async (t) => {
  const pty = await t.pty('exec cat');
  for (const ptyID of [pty.id, 'pty_unknown']) {
    const error = expectError(await t.sdkV2.pty.connectToken({ ptyID }), 403);
    assert.deepEqual(error, { _tag: 'PtyForbiddenError', message: 'Invalid PTY connect token request' });
  }
  assert.equal(expectError(await t.sdkV2.pty.connectToken({ ptyID: 'pty_unknown' }, ticketOptions), 404)._tag, 'PtyNotFoundError');
});

check('ticket_is_valid_for_its_terminal_and_overrides_the_token', async (t) => {
  const server = await startServer(['--token', 's3cret']);
  t.cleanUpSteps.push(() => server.stop());
  const url = `${server.url}/opencode`;
  const headers = { authorization: `Basic ${basic('s3cret')}` };
  const client = t.sdkV2With({ baseUrl: url, headers });
  const [one, two] = [data(await client.pty.create({ command: 'cat' })), data(await client.pty.create({ command: 'cat' }))];
  const mint = async () => data(await client.pty.connectToken({ ptyID: one.id }, ticketOptions)).ticket;
  await (await t.connect(one.id, { url, query: { ticket: await mint() } })).ready();
  await assert.rejects(t.socket(two.id, { url, query: { ticket: await mint() } }).opened, { status: 403 });
  await assert.rejects(t.socket(one.id, { url, headers, query: { ticket: 'made-up' } }).opened, { status: 403 }, 'also together with a valid token');
  await assert.rejects(t.socket(one.id, { url }).opened, { status: 401 });
  assert.equal(nativeId(one.id).slice(0, 5), 'proc_');
});
