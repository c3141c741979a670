// Persistent shells.

import assert from 'node:assert/strict';
import { TIMEOUT_MS, eventually, expectRejection, withTimeout } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { Gate, retryWithLongerLimits } from '../../_shared/gate.mjs';
import { uniqueName } from '../support.mjs';

const runner = (t, id) => (command, options) => t.client().commands.execute(command, id, options);

check('session_is_created_listed_and_deleted', async (t) => {
  const { utils } = t.client();
  const id = t.session();
  const created = await utils.createSession({ id, env: { GREETING: 'hi there' }, cwd: '/usr' });
  assert.deepEqual([created.success, created.data.id, created.containerPlacementId], [true, id, null]);
  assert.equal((await runner(t, id)('pwd; echo $GREETING')).stdout, '/usr\nhi there\n');
  const list = await t.raw('GET', '/api/session/list');
  assert.ok(list.json.data.includes(id));
  const again = await expectRejection(utils.createSession({ id }), 'SessionAlreadyExistsError');
  assert.equal(again.errorResponse?.httpStatus ?? again.httpStatus, 409);
  const deleted = await utils.deleteSession(id);
  assert.deepEqual([deleted.success, deleted.sessionId], [true, id]);
  assert.ok(!(await t.raw('GET', '/api/session/list')).json.data.includes(id));
  await expectRejection(utils.deleteSession(id), 'SandboxError', /not found/);
  assert.equal((await t.post('/api/session/delete', {})).status, 400);
  assert.equal((await t.post('/api/session/delete', { sessionId: id })).status, 404);
});

check('session_without_an_id_gets_one', async (t) => {
  const { data } = await t.client().utils.createSession({});
  assert.ok(data.id);
  t.sessions.add(data.id);
  assert.equal((await runner(t, data.id)('pwd')).stdout, '/workspace\n');
});

check('session_with_a_missing_cwd_starts_at_home', async (t) => {
  const id = t.session();
  await t.client().utils.createSession({ id, cwd: '/no/such/directory' });
  const { stdout } = await runner(t, id)('[ "$PWD" = "$(cd ~ && pwd)" ] && echo home');
  assert.equal(stdout, 'home\n');
});

check('session_is_created_by_its_first_command', async (t) => {
  const id = t.session();
  assert.equal((await runner(t, id)('pwd')).stdout, '/workspace\n');
  assert.ok((await t.raw('GET', '/api/session/list')).json.data.includes(id));
});

check('session_keeps_cwd_variables_functions_and_aliases', async (t) => {
  const run = runner(t, t.session());
  await run('cd /usr; export A=1; B=2; f() { echo "f $1"; }; shopt -s expand_aliases; alias hello="echo alias"');
  assert.equal((await run('pwd; echo $A$B; f x')).stdout, '/usr\n12\nf x\n');
  assert.equal((await run('hello')).stdout, 'alias\n');
});

check('session_env_of_one_call_is_exact_and_not_kept', async (t) => {
  const run = runner(t, t.session());
  const value = 'two\n  lines \'and\' "quotes" $HOME `x` \\';
  const { stdout } = await run('printf %s "$V"; printf "[%s]" "$N"', { env: { V: value, N: undefined } });
  assert.equal(stdout, `${value}[]`);
  assert.equal((await run('echo "[$V]"')).stdout, '[]\n');
  await run('export KEPT=yes');
  const { json } = await t.post('/api/execute', { command: 'echo $KEPT', sessionId: [...t.sessions][0], env: { KEPT: null } });
  assert.equal(json.stdout, 'yes\n', 'null keeps the value');
});

check('session_cwd_of_one_call_is_not_kept', async (t) => {
  const run = runner(t, t.session());
  assert.equal((await run('pwd', { cwd: '/usr' })).stdout, '/usr\n');
  assert.equal((await run('pwd')).stdout, '/workspace\n');
});

check('session_survives_a_syntax_error', async (t) => {
  const run = runner(t, t.session());
  await run('X=1');
  const result = await run('if then fi ((');
  assert.notEqual(result.exitCode, 0);
  assert.match(result.stderr, /syntax error/);
  assert.equal((await run('echo $X')).stdout, '1\n');
});

// Regression (cloudflare/sandbox-sdk#632): every call fails after `exit`.
check('session_exit_is_reported_once_and_the_next_call_works', async (t) => {
  const id = t.session();
  const run = runner(t, id);
  await run('LOST=1');
  const error = await expectRejection(run('echo last words; exit 3'), 'SessionTerminatedError');
  assert.deepEqual([error.context.sessionId, error.context.exitCode, error.context.stdout], [id, 3, 'last words\n']);
  const next = await run('echo "[$LOST]"; pwd');
  assert.deepEqual([next.exitCode, next.stdout], [0, '[]\n/workspace\n']);
});

check('session_whose_shell_has_exited_can_be_created_again', async (t) => {
  const id = t.session();
  const { utils } = t.client();
  await utils.createSession({ id });
  await expectRejection(runner(t, id)('exit 0'), 'SessionTerminatedError');
  await utils.createSession({ id, cwd: '/usr' });
  assert.equal((await runner(t, id)('pwd')).stdout, '/usr\n');
});

// Regression (cloudflare/sandbox-sdk#438): a command that hangs makes the session unusable.
check('session_is_usable_after_a_timeout', async (t) => {
  const run = runner(t, t.session());
  await run('X=kept');
  const [, error] = await retryWithLongerLimits(
    (timeoutMs) => expectRejection(run('echo started; sleep 300', { timeoutMs }), 'CommandError', new RegExp(`Command timeout after ${timeoutMs}ms`)),
    ({ context }) => context.stdout !== '',
  );
  assert.equal(error.context.stdout, 'started\n');
  assert.equal((await withTimeout(TIMEOUT_MS, 'the next command', run('echo $X'))).stdout, 'kept\n');
});

check('session_has_its_own_time_limit', async (t) => {
  const id = t.session();
  await t.client().utils.createSession({ id, commandTimeoutMs: 400 });
  await expectRejection(runner(t, id)('sleep 300'), 'CommandError', /timeout/);
});

check('session_delete_fails_its_running_command', async (t) => {
  const id = t.session();
  const running = runner(t, id)('echo up; sleep 300').then(() => assert.fail('it must not succeed'), (error) => error);
  await eventually('it runs', async () => (await t.native('GET', `/v1/sessions/${id}`).catch(() => ({}))).running);
  await t.client().utils.deleteSession(id);
  assert.equal((await withTimeout(TIMEOUT_MS, 'the reply', running)).name, 'SessionDestroyedError');
});

check('sessions_are_concurrent_and_separate', async (t) => {
  const [a, b] = [t.session(), t.session()];
  await Promise.all([runner(t, a)('V=a'), runner(t, b)('V=b')]);
  const gate = new Gate(t.cleanUpSteps);
  const slow = runner(t, a)(`${gate.waitCommand}; echo $V`);
  await gate.waitForArrivals();
  // The response comes while the other session's command is blocked.
  assert.equal((await withTimeout(TIMEOUT_MS, 'the reply', runner(t, b)('echo $V'))).stdout, 'b\n');
  gate.release();
  assert.equal((await slow).stdout, 'a\n');
});

check('session_commands_run_one_after_another', async (t) => {
  const run = runner(t, t.session());
  await run('N=0');
  await Promise.all([...Array(20)].map(() => run('M=$N; sleep 0.01; N=$((M+1))')));
  assert.equal((await run('echo $N')).stdout, '20\n');
});

check('session_ids_may_be_any_text', async (t) => {
  for (const id of ['user@host:8', 'a b', 'ünï', '.hidden', 'x-61'].map((name) => `${name} ${uniqueName()}`.slice(0, 55))) {
    t.sessions.add(id);
    await runner(t, id)('V=here');
    assert.equal((await runner(t, id)('echo $V')).stdout, 'here\n', id);
    assert.ok((await t.raw('GET', '/api/session/list')).json.data.includes(id), id);
  }
  const blank = await t.post('/api/execute', { command: 'true', sessionId: ' ' });
  assert.deepEqual([blank.status, blank.json.code], [400, 'VALIDATION_FAILED']);
  assert.equal((await t.post('/api/session/create', { id: '' })).status, 400);
});

check('session_id_is_read_from_body_bearer_header_and_query_in_that_order', async (t) => {
  const [body, bearer, header, query] = [1, 2, 3, 4].map(() => t.session());
  const ask = async (sessionId, headers, path = '/api/execute') =>
    (await t.post(path, { command: 'true', sessionId }, headers)).json.sessionId;
  const all = { authorization: `Bearer ${bearer}`, 'x-session-id': header };
  const path = `/api/execute?session=${query}`;
  assert.equal(await ask(body, all, path), body);
  assert.equal(await ask(undefined, all, path), bearer);
  assert.equal(await ask(undefined, { 'x-session-id': header }, path), header);
  assert.equal(await ask(undefined, {}, path), query);
  assert.equal(await ask(undefined, {}, `/api/execute?sessionId=${query}`), query);
  assert.equal(await ask(undefined, {}), 'default');
});
