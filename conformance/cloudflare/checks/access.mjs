// Authentication, and the dialect's own address.

import assert from 'node:assert/strict';
import { eventually, expectRejection } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { checkConcurrently } from '../concurrent.mjs';
import { startServer } from '../../_shared/server.mjs';
import { Context, STATELESS, startTerminal } from '../support.mjs';

const TOKEN = 'a-secret-for-this-check';

async function withToken(t) {
  const server = await startServer(['--token', TOKEN, '--limit', 'stopGraceMs=300'], { dialects: ['cloudflare'] });
  t.cleanUpSteps.push(() => server.stop());
  const own = new Context(server.url);
  t.cleanUpSteps.push(() => own.cleanUp());
  return { ...server, own, url: server.dialects.cloudflare };
}

const bearer = { authorization: `Bearer ${TOKEN}` };

checkConcurrently('access_token_authorizes_the_container_client_at_both_addresses', async (t) => {
  const { own, url } = await withToken(t);
  for (const baseUrl of [url, own.url]) {
    for (const defaultHeaders of [bearer, { 'x-outlive-token': TOKEN }]) {
      const client = t.client({ baseUrl, defaultHeaders });
      assert.equal((await client.commands.execute('echo in', STATELESS)).stdout, 'in\n');
    }
  }
  await expectRejection(t.client({ baseUrl: url }).commands.execute('true', STATELESS), 'SandboxError', /token/);
  await expectRejection(t.client({ baseUrl: url, defaultHeaders: { authorization: 'Bearer wrong' } }).utils.ping(), 'SandboxError', /token/);
});

// The container protocol uses Bearer for a session id. It counts as one only if the token came elsewhere.
checkConcurrently('access_bearer_is_a_token_or_a_session_and_never_both', async (t) => {
  const { url } = await withToken(t);
  const ask = async (headers) => {
    const { status, json } = await t.post('/api/execute', { command: 'true' }, headers, url);
    return [status, json.sessionId];
  };
  assert.deepEqual(await ask(bearer), [200, 'default']);
  assert.deepEqual(await ask({ authorization: 'Bearer a-session', 'x-outlive-token': TOKEN }), [200, 'a-session']);
  assert.deepEqual(await ask({ ...bearer, 'x-session-id': 'another' }), [200, 'another']);
  assert.equal((await ask({ authorization: 'Bearer a-session' }))[0], 401);
  assert.equal((await ask({ ...bearer, 'x-outlive-token': 'wrong' }))[0], 401, 'X-Outlive-Token has precedence');
});

checkConcurrently('access_sockets_take_the_token_from_the_query', async (t) => {
  const { url } = await withToken(t);
  const ws = url.replace('http', 'ws');
  const client = t.overSocket('', { baseUrl: url, wsUrl: `${ws}/ws?token=${TOKEN}`, defaultHeaders: bearer });
  assert.equal((await client.commands.execute('echo in', STATELESS)).stdout, 'in\n');
  const { sessionId } = await client.commands.execute('true', undefined);
  assert.equal(sessionId, 'default', 'the token in a frame is not a session id');
  const opened = (path, options) => t.socket(`${ws}${path}`, options);
  for (const [path, options] of [
    [`/ws/pty?sessionId=a&token=${TOKEN}`],
    ['/ws/pty?sessionId=b', { headers: bearer }],
    [`/v1/sandbox/abc/pty?token=${TOKEN}`],
    [`/v1/sandbox/abc/pty?authorization=Bearer%20${TOKEN}`],
    ['/v1/sandbox/abc/pty', { headers: bearer }],
  ]) {
    await (await opened(path, options)).waitForFrame('ready');
  }
  for (const path of ['/ws', '/ws?token=wrong', '/ws/pty?sessionId=a', '/v1/sandbox/abc/pty', '/v1/sandbox/abc/pty?authorization=Bearer%20wrong']) {
    const error = await opened(path).catch((reason) => reason);
    assert.equal(error.response?.statusCode, 401, path);
  }
  // The query parameter is accepted on sockets only.
  assert.equal((await t.raw('GET', `/api/ping?token=${TOKEN}`, { url })).status, 401);
});

checkConcurrently('access_bridge_client_authenticates_with_its_api_key', async (t) => {
  const { url } = await withToken(t);
  const session = await t.bridge({ url, apiKey: TOKEN });
  assert.match(await session.execCommand({ cmd: 'echo in' }), /in/);
  await (await startTerminal(session, 'echo on a ter""minal')).waitFor(/on a terminal/);
  const error = await t.bridge({ url, apiKey: 'wrong' }).catch((reason) => reason);
  assert.equal(error.details?.status ?? error.context?.status, 401, error.message);
  const { status, json } = await t.post('/v1/sandbox', {}, {}, url);
  assert.deepEqual([status, json.error, json.code], [401, 'Unauthorized', 'unauthorized']);
  assert.equal((await t.raw('GET', '/health', { url })).status, 200, 'health needs no token');
});

checkConcurrently('access_read_token_can_only_read_also_over_the_socket', async (t) => {
  const { own, url } = await withToken(t);
  const created = await own.post('/v1/tokens', { name: 'reader', scope: 'read' }, bearer, own.base);
  const reading = { authorization: `Bearer ${created.json.token}` };
  const client = t.client({ baseUrl: url, defaultHeaders: reading });
  assert.equal((await client.processes.listProcesses()).success, true);
  await expectRejection(client.commands.execute('true', STATELESS), 'SandboxError', /scope/);
  const { send, frames, waitForFrame } = await t.socket(`${url.replace('http', 'ws')}/ws`, { headers: reading });
  send({ type: 'request', id: 'r', method: 'GET', path: '/api/process/list' });
  assert.equal((await waitForFrame('response')).status, 200);
  send({ type: 'request', id: 'w', method: 'POST', path: '/api/execute', body: { command: 'true' }, headers: bearer });
  const reply = await eventually('a reply', () => frames.find(({ id }) => id === 'w'));
  assert.equal(reply.status, 403, 'headers in a frame do not change the scope');
  const terminal = await t.socket(`${url.replace('http', 'ws')}/ws/pty?sessionId=a`, { headers: reading }).catch((reason) => reason);
  assert.equal(terminal.response?.statusCode, 403);
  for (const [method, path] of [['GET', 'file/a'], ['POST', 'persist']]) {
    assert.equal((await own.raw(method, `/v1/sandbox/abc/${path}`, { headers: reading, url })).status, 403, 'a read token cannot access files');
  }
  // Revoking a token also affects open sockets.
  await own.raw('DELETE', '/v1/tokens/reader', { headers: bearer, url: own.base });
  send({ type: 'request', id: 'late', method: 'GET', path: '/api/process/list' });
  const late = await eventually('a reply', () => frames.find(({ id }) => id === 'late'));
  assert.match(JSON.stringify(late), /revoked/);
});

check('access_requests_from_other_origins_are_refused', async (t) => {
  const headers = { origin: 'https://evil.example' };
  for (const path of ['/api/ping', '/health', '/v1/sandbox/abc/running']) {
    const { status, json } = await t.raw('GET', path, { headers });
    assert.deepEqual([status, json.code], [403, 'forbidden'], path);
  }
  const error = await t.socket(`${t.ws}/ws/pty?sessionId=a`, { headers }).catch((reason) => reason);
  assert.equal(error.response?.statusCode, 403);
});
