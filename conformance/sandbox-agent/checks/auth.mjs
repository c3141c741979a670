// Authentication. These checks run only with --token.

import assert from 'node:assert/strict';
import { TIMEOUT_MS, withTimeout } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { expectProblem } from '../support.mjs';

check('auth_is_required', async (t) => {
  for (const token of [undefined, 'wrong', `${t.token}x`, t.token.slice(0, -1)]) {
    // An explicit undefined would select the default, which is the right token.
    const unauthorized = t.client({ token: token ?? '' });
    await expectProblem(unauthorized.listProcesses(), 401, { type: 'token_invalid' });
    await expectProblem(unauthorized.runProcess({ command: 'true' }), 401, { type: 'token_invalid' });
    await expectProblem(unauthorized.createProcess({ command: 'true' }), 401, { type: 'token_invalid' });
    await expectProblem(unauthorized.setProcessConfig({}), 401, { type: 'token_invalid' });
  }
});

check('auth_comes_before_everything_else', async (t) => {
  const { id } = await t.start({ command: 'sleep', args: ['300'], tty: true });
  const ask = async (path, init) => (await t.raw('GET', path, { token: null, ...init })).status;
  assert.equal(await ask('/v1/processes/proc_unknown'), 401);
  assert.equal(await ask(`/v1/processes/${id}/terminal/ws`), 401);
  const headers = { 'content-type': 'application/json' };
  const reply = await t.raw('POST', '/v1/processes/run', { token: null, body: 'not json', headers });
  assert.equal(reply.status, 401);
});

check('auth_by_query_is_accepted_only_on_the_terminal_socket', async (t) => {
  const { id } = await t.start({ command: 'sleep', args: ['300'], tty: true });
  const query = { access_token: t.token };
  assert.equal((await t.raw('GET', '/v1/processes', { token: null, query })).status, 401);
  assert.equal((await t.raw('GET', `/v1/processes/${id}/logs`, { token: null, query })).status, 401);
  const path = `/v1/processes/${id}/terminal/ws`;
  assert.equal(await t.upgradeStatus(path), 401);
  assert.equal(await t.upgradeStatus(`${path}?access_token=wrong`), 401);
  assert.equal(await t.upgradeStatus(`${path}?access_token=${encodeURIComponent(t.token)}`), 101);
  const escaped = [...Buffer.from(t.token)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');
  assert.equal(await t.upgradeStatus(`${path}?access_token=${escaped}`), 101);
  assert.equal(await t.upgradeStatus(path, { authorization: `Bearer ${t.token}` }), 101);
});

check('auth_of_the_sdks_terminal_is_by_query', async (t) => {
  const { id } = await t.startShell('stty -echo; echo up; exec cat', { tty: true });
  await t.waitForLog(id, 'up');
  const terminal = await t.attach(id);
  terminal.send('in\n');
  await terminal.bytes.waitForText('in\r\n');
  const unauthorized = t.openTerminal(id, { accessToken: 'wrong' });
  await withTimeout(TIMEOUT_MS, 'closed', unauthorized.closed);
  assert.equal(unauthorized.errors.length, 1);
  assert.deepEqual(unauthorized.texts, []);
});

// The server must remove a token that it received in an environment variable.
check('auth_token_is_not_passed_to_children', async (t) => {
  const { stdout } = await t.runShell('env; tr "\\0" "\\n" < /proc/self/environ');
  assert.ok(!stdout.includes(t.token), 'the token is in the environment');
});
