// Authentication, and the dialect's own address.

import assert from 'node:assert/strict';
import { Sandbox } from 'e2b';
import { expectRejection } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { startServer } from '../../_shared/server.mjs';
import { HOME } from '../support.mjs';

const TOKEN = 'a-secret-for-this-check';

async function withToken(t) {
  const server = await startServer(['--token', TOKEN], { dialects: ['e2b'] });
  t.cleanUpSteps.push(() => server.stop());
  return server;
}

const sandboxWithToken = (sandboxUrl, envdAccessToken) =>
  new Sandbox({ sandboxId: 'any', envdVersion: '99.99.99', debug: true, sandboxUrl, envdAccessToken });

check('access_token_authorizes_the_sdk_at_both_addresses', async (t) => {
  const server = await withToken(t);
  for (const url of [server.dialects.e2b, `${server.url}/e2b`]) {
    const { stdout } = await sandboxWithToken(url, TOKEN).commands.run('echo in', { envs: { HOME } });
    assert.equal(stdout, 'in\n');
  }
});

check('access_without_the_token_is_an_authentication_error', async (t) => {
  const server = await withToken(t);
  for (const sandbox of [sandboxWithToken(server.dialects.e2b, 'wrong'), await t.sandbox(server.dialects.e2b)]) {
    await expectRejection(sandbox.commands.run('true'), 'AuthenticationError');
    await expectRejection(sandbox.commands.list(), 'AuthenticationError');
    await expectRejection(sandbox.commands.connect(1), 'AuthenticationError');
    assert.equal(await sandbox.isRunning(), true, 'health needs no token');
  }
  const { status, type, json } = await t.call('Start', {}, { url: server.dialects.e2b, codec: 'connect+json' });
  assert.deepEqual([status, json.code], [401, 401]);
  assert.match(type, /^application\/json/);
  assert.match(json.message, /please provide a valid access token/);
});

check('access_basic_auth_selects_a_user_and_authorizes_nothing', async (t) => {
  const server = await withToken(t);
  const url = server.dialects.e2b;
  const basic = `Basic ${Buffer.from(`root:${TOKEN}`).toString('base64')}`;
  assert.equal((await t.call('List', {}, { url, headers: { authorization: basic } })).status, 401);
  const { stdout } = await sandboxWithToken(url, TOKEN).commands.run('id -un', { user: 'daemon', envs: { HOME } });
  assert.equal(stdout, 'daemon\n');
});

check('access_init_issues_a_token', async (t) => {
  const server = await withToken(t);
  const init = (token, body) => fetch(`${server.dialects.e2b}/init`, {
    method: 'POST', headers: { 'content-type': 'application/json', 'x-access-token': token }, body: JSON.stringify(body),
  });
  assert.equal((await init('wrong', { accessToken: 'x' })).status, 401);
  assert.equal((await init(TOKEN, { accessToken: 'given-out' })).status, 204);
  const { stdout } = await sandboxWithToken(server.dialects.e2b, 'given-out').commands.run('echo in', { envs: { HOME } });
  assert.equal(stdout, 'in\n');
  assert.equal((await init('given-out', {})).status, 403, 'the issued token cannot call init');
  // A server without a token refuses to set one.
  const open = await fetch(`${t.url}/init`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"accessToken":"x"}' });
  assert.equal(open.status, 409);
});

check('access_from_other_origins_is_refused', async (t) => {
  const { status, json } = await t.call('List', {}, { headers: { origin: 'https://evil.example' } });
  assert.deepEqual([status, json.code], [403, 403]);
});

check('own_address_serves_the_sdk_configured_by_environment_alone', async (t) => {
  const server = await startServer(['--no-token'], { dialects: ['e2b'] });
  t.cleanUpSteps.push(() => server.stop());
  process.env.E2B_DEBUG = 'true';
  process.env.E2B_SANDBOX_URL = server.dialects.e2b;
  t.cleanUpSteps.push(() => { delete process.env.E2B_DEBUG; delete process.env.E2B_SANDBOX_URL; });
  const sandbox = await Sandbox.create();
  assert.equal((await sandbox.commands.run('echo here', { envs: { HOME } })).stdout, 'here\n');
});
