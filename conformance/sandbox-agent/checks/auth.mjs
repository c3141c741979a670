// The token. These checks run only if one was given.

import assert from 'node:assert/strict';
import { PATIENCE_MS } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { refused, within } from '../support.mjs';

check('auth_is_needed', async (t) => {
  for (const token of [undefined, 'wrong', `${t.token}x`, t.token.slice(0, -1)]) {
    // An explicit undefined would bring the right one back.
    const stranger = t.client({ token: token ?? '' });
    await refused(stranger.listProcesses(), 401, { type: 'token_invalid' });
    await refused(stranger.runProcess({ command: 'true' }), 401, { type: 'token_invalid' });
    await refused(stranger.createProcess({ command: 'true' }), 401, { type: 'token_invalid' });
    await refused(stranger.setProcessConfig({}), 401, { type: 'token_invalid' });
  }
});

check('auth_comes_before_everything_else', async (t) => {
  const { id } = await t.start({ command: 'sleep', args: ['300'], tty: true });
  const ask = async (path, init) => (await t.raw('GET', path, { token: null, ...init })).status;
  assert.equal(await ask('/v1/processes/proc_nobody'), 401);
  assert.equal(await ask(`/v1/processes/${id}/terminal/ws`), 401);
  const headers = { 'content-type': 'application/json' };
  const answer = await t.raw('POST', '/v1/processes/run', { token: null, body: 'not json', headers });
  assert.equal(answer.status, 401);
});

check('auth_by_query_only_on_the_terminal_socket', async (t) => {
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

check('auth_of_the_sdks_terminal', async (t) => {
  const { id } = await t.startShell('stty -echo; echo up; exec cat', { tty: true });
  await t.untilLogged(id, 'up');
  const terminal = await t.attach(id);
  terminal.send('in\n');
  await terminal.bytes.untilText('in\r\n');
  const stranger = t.dial(id, { accessToken: 'wrong' });
  await within(PATIENCE_MS, 'closed', stranger.closed);
  assert.equal(stranger.errors.length, 1);
  assert.deepEqual(stranger.texts, []);
});

// A server that was given its token by a variable has to take it out.
check('auth_token_is_not_passed_to_children', async (t) => {
  const { stdout } = await t.runShell('env; tr "\\0" "\\n" < /proc/self/environ');
  assert.ok(!stdout.includes(t.token), 'the token is in the environment');
});
