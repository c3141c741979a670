// Authentication and scopes.

import assert from 'node:assert/strict';
import { check } from '../../_shared/runner.mjs';
import { startServer } from '../../_shared/server.mjs';
import { basic, data, expectError } from '../support.mjs';

async function startServerWithToken(t) {
  const server = await startServer(['--token', 's3cret'], { dialects: ['opencode'] });
  t.cleanUpSteps.push(() => server.stop());
  return { url: `${server.url}/opencode`, own: server.dialects.opencode, main: server.url };
}

check('access_by_basic_auth_accepts_any_user', async (t) => {
  const { url } = await startServerWithToken(t);
  for (const user of ['opencode', 'other']) {
    const headers = { Authorization: `Basic ${basic('s3cret', user)}` };
    for (const client of [t.sdkV1With({ baseUrl: url, headers }), t.sdkV2With({ baseUrl: url, headers })]) {
      assert.deepEqual(data(await client.pty.list()), []);
    }
  }
});

check('access_without_a_token_is_401_with_www_authenticate', async (t) => {
  const { url } = await startServerWithToken(t);
  for (const headers of [{}, { Authorization: `Basic ${basic('wrong')}` }, { Authorization: 'Basic !' }]) {
    const { status, json, headers: responseHeaders } = await t.raw('GET', '/pty', { url, headers });
    assert.deepEqual([status, responseHeaders.get('www-authenticate'), json], [401, 'Basic realm="Secure Area"', { _tag: 'UnauthorizedError', message: 'Authentication required' }]);
  }
  assert.equal((await t.raw('GET', '/global/health', { url })).status, 401);
  expectError(await t.sdkV2With({ baseUrl: url }).pty.create({ command: 'cat' }), 401);
});

check('access_of_sockets_by_auth_token_overrides_the_header', async (t) => {
  const { url } = await startServerWithToken(t);
  const headers = { Authorization: `Basic ${basic('s3cret')}` };
  const pty = data(await t.sdkV2With({ baseUrl: url, headers }).pty.create({ command: 'cat' }));
  await (await t.connect(pty.id, { url, headers })).ready();
  await (await t.connect(pty.id, { url, query: { auth_token: basic('s3cret') } })).ready();
  await assert.rejects(t.socket(pty.id, { url, headers, query: { auth_token: basic('wrong') } }).opened, { status: 401 });
  await (await t.connect(pty.id, { url, headers: { Authorization: `Basic ${basic('wrong')}` }, query: { auth_token: basic('s3cret') } })).ready();
});

check('access_with_a_read_token_can_only_read', async (t) => {
  const { url, main } = await startServerWithToken(t);
  const writeHeaders = { Authorization: `Basic ${basic('s3cret')}` };
  const issue = { method: 'POST', headers: { authorization: 'Bearer s3cret', 'content-type': 'application/json' }, body: JSON.stringify({ name: 'reader', scope: 'read' }) };
  const { token } = await (await fetch(`${main}/v1/tokens`, issue)).json();
  const readHeaders = { Authorization: `Basic ${basic(token)}` };
  const [writer, reader] = [t.sdkV2With({ baseUrl: url, headers: writeHeaders }), t.sdkV2With({ baseUrl: url, headers: readHeaders })];
  const pty = data(await writer.pty.create({ command: '/bin/sh', args: ['-c', 'echo shown; exec cat'] }));
  assert.equal(data(await reader.pty.get({ ptyID: pty.id })).id, pty.id);
  for (const call of [reader.pty.create({ command: 'cat' }), reader.pty.remove({ ptyID: pty.id }), reader.pty.update({ ptyID: pty.id, title: 'x' }), reader.session.create()]) {
    assert.equal(expectError(await call, 403)._tag, 'ForbiddenError');
  }
  expectError(await reader.pty.connectToken({ ptyID: pty.id }, { headers: { 'x-opencode-ticket': '1' } }), 403);
  const terminal = await t.connect(pty.id, { url, headers: readHeaders });
  await terminal.waitFor('shown');
  terminal.send('typed');
  assert.equal((await terminal.waitForClose()).code, 1008);
});

check('access_at_the_dialects_own_address_works_at_the_root', async (t) => {
  const { own } = await startServerWithToken(t);
  const headers = { Authorization: `Basic ${basic('s3cret')}` };
  const client = t.sdkV2With({ baseUrl: own, headers });
  assert.equal(data(await client.global.health()).healthy, true);
  const pty = data(await client.v2.pty.create({ command: '/bin/sh', args: ['-c', 'echo hi'] })).data;
  const terminal = await t.connect(pty.id, { url: own, headers });
  await terminal.waitForClose();
  assert.equal(terminal.text, 'hi\r\n');
});

check('access_from_other_origins_is_refused', async (t) => {
  const pty = await t.pty('exec cat');
  const headers = { origin: 'https://evil.example' };
  assert.equal((await t.raw('GET', '/pty', { headers })).status, 403);
  await assert.rejects(t.socket(pty.id, { headers }).opened, { status: 403 });
});
