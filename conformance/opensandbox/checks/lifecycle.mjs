// `Sandbox.connect()`, authentication, and the dialect's own address.

import assert from 'node:assert/strict';
import { ConnectionConfig, Sandbox } from '@alibaba-group/opensandbox';
import { check } from '../../_shared/runner.mjs';
import { startServer } from '../../_shared/server.mjs';
import { joined, expectError } from '../support.mjs';

const TOKEN = 'a-secret-for-this-check';

async function sandbox(t, domain, options = {}) {
  const connectionConfig = new ConnectionConfig({ domain, disableMetrics: true, ...options });
  const connected = await Sandbox.connect({ sandboxId: 'any-id', connectionConfig });
  t.cleanUpSteps.push(() => connected.close());
  return connected;
}

async function withToken(t) {
  const server = await startServer(['--token', TOKEN], { dialects: ['opensandbox'] });
  t.cleanUpSteps.push(() => server.stop());
  return server;
}

check('connect_works_below_the_main_address', async (t) => {
  for (const useServerProxy of [false, true]) {
    const connected = await sandbox(t, t.url, { useServerProxy });
    const { logs, exitCode } = await connected.commands.run('echo in');
    assert.deepEqual([joined(logs.stdout), exitCode], ['in', 0]);
    assert.equal(await connected.isHealthy(), true);
  }
});

check('connect_endpoints_name_this_server', async (t) => {
  const host = new URL(t.base).host;
  const execd = await t.http('GET', '/v1/sandboxes/x/endpoints/44772?use_server_proxy=false');
  assert.deepEqual(execd.json, { endpoint: `${host}/opensandbox` });
  const other = await t.http('GET', '/v1/sandboxes/x/endpoints/18080');
  assert.deepEqual(other.json, { endpoint: `${new URL(t.base).hostname}:18080` });
  assert.equal((await t.http('GET', '/v1/sandboxes/x/endpoints/nonsense')).status, 400);
});

check('connect_works_with_a_token_at_the_dialects_own_address', async (t) => {
  const server = await withToken(t);
  for (const domain of [server.dialects.opensandbox, `${server.url}/opensandbox`]) {
    const connected = await sandbox(t, domain, { apiKey: TOKEN });
    assert.equal(joined((await connected.commands.run('echo in')).logs.stdout), 'in');
  }
});

check('access_needs_the_token_header', async (t) => {
  const server = await withToken(t);
  const url = server.dialects.opensandbox;
  const { commands } = t.sdk(url, { 'X-EXECD-ACCESS-TOKEN': TOKEN });
  assert.equal(joined((await commands.run('echo in')).logs.stdout), 'in');
  for (const headers of [{}, { 'X-EXECD-ACCESS-TOKEN': 'wrong' }]) {
    const { status, json } = await t.http('GET', '/ping', { url, headers });
    assert.equal(status, 401);
    assert.match(json.error, /^Unauthorized: invalid or missing header X-EXECD-ACCESS-TOKEN or OPEN-SANDBOX-API-KEY/);
    const refusal = await t.sdk(url, headers).commands.run('true').then(() => assert.fail('the handshake was accepted'), (error) => error);
    assert.equal(refusal.statusCode, 401);
  }
});

check('access_of_sockets_is_by_header_or_by_query', async (t) => {
  const server = await withToken(t);
  const url = server.dialects.opensandbox;
  const by = async (path, headers) => (await t.socket(path, { url, headers })).waitForFrame('exit');
  assert.equal((await by('/terminal?command=exit+2', { 'X-EXECD-ACCESS-TOKEN': TOKEN })).exit_code, 2);
  assert.equal((await by(`/terminal?command=exit+2&access_token=${TOKEN}`, {})).exit_code, 2);
  await t.socket('/terminal?command=true', { url }).then(() => assert.fail('the handshake was accepted'), (error) => assert.match(error.message, /401/));
});

check('access_with_a_read_token_is_enough_for_viewers', async (t) => {
  const server = await withToken(t);
  const url = server.dialects.opensandbox;
  const own = (method, path, body, token = TOKEN) => fetch(`${server.url}${path}`, {
    method, headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' }, body: body && JSON.stringify(body),
  }).then((response) => response.json());
  const { token } = await own('POST', '/v1/tokens', { name: 'reader', scope: 'read' });
  const headers = { 'X-EXECD-ACCESS-TOKEN': token };
  const created = await t.http('POST', '/pty', { url, headers: { 'X-EXECD-ACCESS-TOKEN': TOKEN }, body: { command: 'echo up; sleep 300' } });
  const path = `/pty/${created.json.session_id}/ws`;
  const owner = await t.socket(path, { url, headers: { 'X-EXECD-ACCESS-TOKEN': TOKEN } });
  await owner.waitFor('up');
  const viewer = await t.socket(`${path}?mode=viewer`, { url, headers });
  await viewer.waitFor('up');
  await t.socket(`${path}?takeover=1`, { url, headers }).then(() => assert.fail('the handshake was accepted'), (error) => assert.match(error.message, /403/));
  assert.equal((await t.http('POST', '/command', { url, headers, body: { command: 'true' } })).status, 403);
  assert.equal((await t.http('GET', '/ping', { url, headers })).status, 200);
});

check('access_from_other_origins_is_refused', async (t) => {
  const { status, json } = await t.http('GET', '/ping', { headers: { origin: 'https://evil.example' } });
  assert.equal(status, 403);
  assert.ok(json.code && json.message);
  const refusal = await t.refusedSocket('/terminal', { origin: 'https://evil.example' });
  assert.equal(refusal.status, 403);
});

check('own_address_serves_the_sdk_configured_by_environment_alone', async (t) => {
  const server = await startServer(['--no-token'], { dialects: ['opensandbox'] });
  t.cleanUpSteps.push(() => server.stop());
  process.env.OPEN_SANDBOX_DOMAIN = new URL(server.dialects.opensandbox).host;
  t.cleanUpSteps.push(() => { delete process.env.OPEN_SANDBOX_DOMAIN; });
  const connected = await sandbox(t);
  assert.equal(joined((await connected.commands.run('echo here')).logs.stdout), 'here');
  await expectError(connected.commands.getCommandStatus('0'.repeat(32)), 404, 'INVALID_REQUEST_BODY');
});
