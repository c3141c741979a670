// Who may do what, and how clients show it.

import assert from 'node:assert/strict';
import { check } from '../../_shared/frame.mjs';
import { startServer } from '../../_shared/server.mjs';
import { basic, data, refused } from '../support.mjs';

async function guarded(t) {
  const server = await startServer(['--token', 's3cret'], { dialects: ['opencode'] });
  t.atEnd.push(() => server.stop());
  return { url: `${server.url}/opencode`, own: server.dialects.opencode, main: server.url };
}

check('access_by_basic_with_any_user', async (t) => {
  const { url } = await guarded(t);
  for (const user of ['opencode', 'somebody']) {
    const headers = { Authorization: `Basic ${basic('s3cret', user)}` };
    for (const client of [t.firstWith({ baseUrl: url, headers }), t.secondWith({ baseUrl: url, headers })]) {
      assert.deepEqual(data(await client.pty.list()), []);
    }
  }
});

check('access_is_refused_with_401_and_how_to_show_it', async (t) => {
  const { url } = await guarded(t);
  for (const headers of [{}, { Authorization: `Basic ${basic('wrong')}` }, { Authorization: 'Basic !' }]) {
    const { status, json, headers: said } = await t.raw('GET', '/pty', { url, headers });
    assert.deepEqual([status, said.get('www-authenticate'), json], [401, 'Basic realm="Secure Area"', { _tag: 'UnauthorizedError', message: 'Authentication required' }]);
  }
  assert.equal((await t.raw('GET', '/global/health', { url })).status, 401);
  refused(await t.secondWith({ baseUrl: url }).pty.create({ command: 'cat' }), 401);
});

check('access_of_sockets_by_auth_token_which_wins', async (t) => {
  const { url } = await guarded(t);
  const headers = { Authorization: `Basic ${basic('s3cret')}` };
  const pty = data(await t.secondWith({ baseUrl: url, headers }).pty.create({ command: 'cat' }));
  await (await t.connect(pty.id, { url, headers })).ready();
  await (await t.connect(pty.id, { url, query: { auth_token: basic('s3cret') } })).ready();
  await assert.rejects(t.socket(pty.id, { url, headers, query: { auth_token: basic('wrong') } }).opened, { status: 401 });
  await (await t.connect(pty.id, { url, headers: { Authorization: `Basic ${basic('wrong')}` }, query: { auth_token: basic('s3cret') } })).ready();
});

check('access_of_who_may_only_look', async (t) => {
  const { url, main } = await guarded(t);
  const owner = { Authorization: `Basic ${basic('s3cret')}` };
  const issue = { method: 'POST', headers: { authorization: 'Bearer s3cret', 'content-type': 'application/json' }, body: JSON.stringify({ name: 'eye', scope: 'read' }) };
  const { token } = await (await fetch(`${main}/v1/tokens`, issue)).json();
  const eye = { Authorization: `Basic ${basic(token)}` };
  const [hand, look] = [t.secondWith({ baseUrl: url, headers: owner }), t.secondWith({ baseUrl: url, headers: eye })];
  const pty = data(await hand.pty.create({ command: '/bin/sh', args: ['-c', 'echo shown; exec cat'] }));
  assert.equal(data(await look.pty.get({ ptyID: pty.id })).id, pty.id);
  for (const call of [look.pty.create({ command: 'cat' }), look.pty.remove({ ptyID: pty.id }), look.pty.update({ ptyID: pty.id, title: 'x' }), look.session.create()]) {
    assert.equal(refused(await call, 403)._tag, 'ForbiddenError');
  }
  refused(await look.pty.connectToken({ ptyID: pty.id }, { headers: { 'x-opencode-ticket': '1' } }), 403);
  const terminal = await t.connect(pty.id, { url, headers: eye });
  await terminal.until('shown');
  terminal.send('typed');
  assert.equal((await terminal.end()).code, 1008);
});

check('access_at_the_root_of_an_address_of_its_own', async (t) => {
  const { own } = await guarded(t);
  const headers = { Authorization: `Basic ${basic('s3cret')}` };
  const client = t.secondWith({ baseUrl: own, headers });
  assert.equal(data(await client.global.health()).healthy, true);
  const pty = data(await client.v2.pty.create({ command: '/bin/sh', args: ['-c', 'echo hi'] })).data;
  const terminal = await t.connect(pty.id, { url: own, headers });
  await terminal.end();
  assert.equal(terminal.text, 'hi\r\n');
});

check('access_of_pages_of_other_origins_is_refused', async (t) => {
  const pty = await t.pty('exec cat');
  const headers = { origin: 'https://evil.example' };
  assert.equal((await t.raw('GET', '/pty', { headers })).status, 403);
  await assert.rejects(t.socket(pty.id, { headers }).opened, { status: 403 });
});
