// Who is let in. A server with a token, and an address of the dialect's own.

import assert from 'node:assert/strict';
import { Sandbox } from 'e2b';
import { refused } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { startServer } from '../../_shared/server.mjs';
import { HOME } from '../support.mjs';

const TOKEN = 'a-secret-for-this-check';

async function withToken(t) {
  const server = await startServer(['--token', TOKEN], { dialects: ['e2b'] });
  t.atEnd.push(() => server.stop());
  return server;
}

const holding = (sandboxUrl, envdAccessToken) =>
  new Sandbox({ sandboxId: 'any', envdVersion: '99.99.99', debug: true, sandboxUrl, envdAccessToken });

check('access_token_lets_the_sdk_in_at_both_addresses', async (t) => {
  const server = await withToken(t);
  for (const url of [server.dialects.e2b, `${server.url}/e2b`]) {
    const { stdout } = await holding(url, TOKEN).commands.run('echo in', { envs: { HOME } });
    assert.equal(stdout, 'in\n');
  }
});

check('access_without_the_token_is_an_authentication_error', async (t) => {
  const server = await withToken(t);
  for (const sandbox of [holding(server.dialects.e2b, 'wrong'), await t.sandbox(server.dialects.e2b)]) {
    await refused(sandbox.commands.run('true'), 'AuthenticationError');
    await refused(sandbox.commands.list(), 'AuthenticationError');
    await refused(sandbox.commands.connect(1), 'AuthenticationError');
    assert.equal(await sandbox.isRunning(), true, 'health asks for nothing');
  }
  const { status, type, json } = await t.call('Start', {}, { url: server.dialects.e2b, codec: 'connect+json' });
  assert.deepEqual([status, json.code], [401, 401]);
  assert.match(type, /^application\/json/);
  assert.match(json.message, /please provide a valid access token/);
});

check('access_basic_names_a_user_and_lets_nobody_in', async (t) => {
  const server = await withToken(t);
  const url = server.dialects.e2b;
  const basic = `Basic ${Buffer.from(`root:${TOKEN}`).toString('base64')}`;
  assert.equal((await t.call('List', {}, { url, headers: { authorization: basic } })).status, 401);
  const { stdout } = await holding(url, TOKEN).commands.run('id -un', { user: 'daemon', envs: { HOME } });
  assert.equal(stdout, 'daemon\n');
});

check('access_init_gives_out_a_token', async (t) => {
  const server = await withToken(t);
  const init = (token, body) => fetch(`${server.dialects.e2b}/init`, {
    method: 'POST', headers: { 'content-type': 'application/json', 'x-access-token': token }, body: JSON.stringify(body),
  });
  assert.equal((await init('wrong', { accessToken: 'x' })).status, 401);
  assert.equal((await init(TOKEN, { accessToken: 'given-out' })).status, 204);
  const { stdout } = await holding(server.dialects.e2b, 'given-out').commands.run('echo in', { envs: { HOME } });
  assert.equal(stdout, 'in\n');
  assert.equal((await init('given-out', {})).status, 403, 'it is for using the sandbox, not for setting it up');
  // Without a token nothing can be protected by one, and that is said.
  const open = await fetch(`${t.url}/init`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"accessToken":"x"}' });
  assert.equal(open.status, 409);
});

check('access_of_a_web_page_is_refused', async (t) => {
  const { status, json } = await t.call('List', {}, { headers: { origin: 'https://evil.example' } });
  assert.deepEqual([status, json.code], [403, 403]);
});

check('own_address_serves_the_sdk_by_environment_alone', async (t) => {
  const server = await startServer(['--no-token'], { dialects: ['e2b'] });
  t.atEnd.push(() => server.stop());
  process.env.E2B_DEBUG = 'true';
  process.env.E2B_SANDBOX_URL = server.dialects.e2b;
  t.atEnd.push(() => { delete process.env.E2B_DEBUG; delete process.env.E2B_SANDBOX_URL; });
  const sandbox = await Sandbox.create();
  assert.equal((await sandbox.commands.run('echo here', { envs: { HOME } })).stdout, 'here\n');
});
