// Commands that return their result, with and without a session.

import assert from 'node:assert/strict';
import { TIMEOUT_MS, eventually, uniqueMarker, numbers, printNumbers, expectRejection, withTimeout } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { retryWithLongerLimits } from '../../_shared/gate.mjs';
import { STATELESS } from '../support.mjs';

check('container_reports_health_and_version', async (t) => {
  const { utils } = t.client();
  assert.equal(await utils.ping(), 'pong');
  assert.equal(await utils.getVersion(), '0.12.10');
  const ping = await t.raw('GET', '/api/ping');
  assert.deepEqual([ping.json.success, ping.json.status], [true, 'healthy']);
  assert.match(ping.json.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  const root = await t.raw('GET', '');
  assert.equal(root.status, 200);
  assert.match(root.text, /outlive/);
});

check('container_errors_have_the_platforms_format', async (t) => {
  const unknown = await t.raw('GET', '/api/nonsense');
  assert.deepEqual([unknown.status, unknown.json.code, unknown.json.httpStatus], [404, 'UNKNOWN_ERROR', 404]);
  const post = (body) => t.raw('POST', '/api/execute', { headers: { 'content-type': 'application/json' }, body });
  for (const garbage of ['{', '', '[]', '{"command": 5}', '\u0000']) {
    const reply = await post(garbage);
    assert.ok([400, 422].includes(reply.status), `${garbage}: ${reply.status}`);
    assert.equal(reply.json.code, 'VALIDATION_FAILED');
    assert.ok(typeof reply.json.message === 'string' && typeof reply.json.context === 'object');
    assert.doesNotMatch(reply.text, /\\n\s+at |\.(js|rs|ts):\d/, 'no stack trace');
  }
  await expectRejection(t.client().commands.execute('  ', STATELESS), 'CommandError');
});

check('execute_returns_output_and_exit_code', async (t) => {
  const result = await t.run('echo out; echo err >&2; exit 3');
  assert.deepEqual([result.success, result.exitCode, result.stdout, result.stderr], [false, 3, 'out\n', 'err\n']);
  assert.deepEqual([result.command, result.sessionId], ['echo out; echo err >&2; exit 3', STATELESS]);
  assert.equal((await t.run('true')).success, true);
});

check('execute_without_a_session_runs_bash_in_the_workspace_and_keeps_no_state', async (t) => {
  const first = await t.run('pwd; echo $BASH_VERSION | cut -c1; cd /tmp; export LEFT=over');
  assert.match(first.stdout, /^\/workspace\n\d\n$/);
  assert.equal((await t.run('pwd; echo "[$LEFT]"')).stdout, '/workspace\n[]\n');
  assert.equal((await t.run('pwd; echo $A', { cwd: '/usr', env: { A: 'b' } })).stdout, '/usr\nb\n');
});

check('execute_reports_signal_missing_command_and_bad_cwd', async (t) => {
  assert.equal((await t.run('kill -9 $$')).exitCode, 137);
  const missing = await t.run('no-such-command-here');
  assert.equal(missing.exitCode, 127);
  assert.match(missing.stderr, /not found/);
  await expectRejection(t.run('true', { cwd: '/no/such/directory' }), 'CommandError', /does not exist/);
  const inSession = t.client().commands.execute('true', t.session(), { cwd: '/no/such/directory' });
  const { exitCode, stderr } = await inSession;
  assert.notEqual(exitCode, 0);
  assert.match(stderr, /no\/such\/directory/);
});

check('execute_stdin_is_at_end_of_file', async (t) => {
  for (const sessionId of [STATELESS, t.session()]) {
    const result = await withTimeout(TIMEOUT_MS, 'the end of cat', t.client().commands.execute('cat; echo done', sessionId));
    assert.equal(result.stdout, 'done\n');
  }
});

check('execute_timeout_is_124_and_kills_the_tree', async (t) => {
  const name = uniqueMarker();
  // Regression (iterate/iterate#2034): children ignore TERM and never exit, so a server that waits for them never
  // responds.
  const line = `trap '' TERM; (trap '' TERM; setsid bash -c 'trap "" TERM; while :; do sleep 1; done' ${name}) & echo started; sleep 300`;
  const [ms, result] = await retryWithLongerLimits((timeoutMs) => t.run(line, { timeoutMs }), ({ stdout }) => stdout !== '');
  assert.deepEqual([result.exitCode, result.success, result.stdout], [124, false, 'started\n']);
  assert.match(result.stderr, new RegExp(`Command timed out after ${ms}ms`));
  await eventually('the tree is killed', async () => (await t.countProcesses(name)) === 0);
});

check('execute_does_not_wait_for_background_children', async (t) => {
  for (const sessionId of [STATELESS, t.session()]) {
    const { stdout } = await withTimeout(TIMEOUT_MS, 'the reply', t.client().commands.execute('sleep 300 & echo $!', sessionId));
    assert.match(stdout, /^\d+\n$/);
    t.cleanUpSteps.push(() => process.kill(Number(stdout)));
  }
});

check('execute_output_of_23_megabytes_is_exact_with_and_without_a_session', async (t) => {
  const length = 23_000_000;
  const expected = numbers(length).toString();
  for (const sessionId of [STATELESS, t.session()]) {
    const result = await t.client().commands.execute(printNumbers(length), sessionId);
    assert.ok(result.stdout === expected, `${result.stdout.length} characters of ${sessionId}`);
  }
}, { seconds: 120 });

check('execute_replaces_invalid_utf8', async (t) => {
  const result = await t.run(String.raw`printf 'a\xff\xc3\xa9\xe2\x82z'`);
  assert.equal(result.stdout, new TextDecoder().decode(Buffer.from([97, 255, 0xc3, 0xa9, 0xe2, 0x82, 122])));
});

check('execute_in_the_background_starts_a_process', async (t) => {
  const { json } = await t.post('/api/execute', { command: 'echo up; exit 6', sessionId: STATELESS, background: true });
  assert.ok(json.success && json.pid > 1 && json.processId);
  const events = await t.events(t.client().processes.streamProcessLogs(json.processId));
  assert.deepEqual([events.at(-1).type, events.at(-1).exitCode], ['exit', 6]);
});

check('execute_runs_32_commands_at_once', async (t) => {
  const client = t.client();
  const id = t.session();
  const all = [...Array(32).keys()].map((n) => client.commands.execute(`sleep 0.05; echo ${n}`, n % 2 ? id : STATELESS));
  const results = await Promise.all(all);
  results.forEach((result, n) => assert.deepEqual([result.exitCode, result.stdout], [0, `${n}\n`]));
});
