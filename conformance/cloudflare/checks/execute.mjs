// Commands that are waited for: alone, and in sessions.

import assert from 'node:assert/strict';
import { PATIENCE_MS, eventually, mark, numbers, printNumbers, refused, within } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { longEnough } from '../../_shared/pace.mjs';
import { STATELESS } from '../support.mjs';

check('container_is_there', async (t) => {
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

check('container_refuses_in_its_own_words', async (t) => {
  const unknown = await t.raw('GET', '/api/nonsense');
  assert.deepEqual([unknown.status, unknown.json.code, unknown.json.httpStatus], [404, 'UNKNOWN_ERROR', 404]);
  const post = (body) => t.raw('POST', '/api/execute', { headers: { 'content-type': 'application/json' }, body });
  for (const garbage of ['{', '', '[]', '{"command": 5}', '\u0000']) {
    const answer = await post(garbage);
    assert.ok([400, 422].includes(answer.status), `${garbage}: ${answer.status}`);
    assert.equal(answer.json.code, 'VALIDATION_FAILED');
    assert.ok(typeof answer.json.message === 'string' && typeof answer.json.context === 'object');
    assert.doesNotMatch(answer.text, /\\n\s+at |\.(js|rs|ts):\d/, 'no stack trace');
  }
  await refused(t.client().commands.execute('  ', STATELESS), 'CommandError');
});

check('execute_answers_with_output_and_exit_code', async (t) => {
  const result = await t.run('echo out; echo err >&2; exit 3');
  assert.deepEqual([result.success, result.exitCode, result.stdout, result.stderr], [false, 3, 'out\n', 'err\n']);
  assert.deepEqual([result.command, result.sessionId], ['echo out; echo err >&2; exit 3', STATELESS]);
  assert.equal((await t.run('true')).success, true);
});

check('execute_alone_is_bash_in_the_workspace_and_remembers_nothing', async (t) => {
  const first = await t.run('pwd; echo $BASH_VERSION | cut -c1; cd /tmp; export LEFT=over');
  assert.match(first.stdout, /^\/workspace\n\d\n$/);
  assert.equal((await t.run('pwd; echo "[$LEFT]"')).stdout, '/workspace\n[]\n');
  assert.equal((await t.run('pwd; echo $A', { cwd: '/usr', env: { A: 'b' } })).stdout, '/usr\nb\n');
});

check('execute_signal_missing_command_and_bad_cwd', async (t) => {
  assert.equal((await t.run('kill -9 $$')).exitCode, 137);
  const missing = await t.run('no-such-command-here');
  assert.equal(missing.exitCode, 127);
  assert.match(missing.stderr, /not found/);
  await refused(t.run('true', { cwd: '/no/such/folder' }), 'CommandError', /does not exist/);
  const inSession = t.client().commands.execute('true', t.session(), { cwd: '/no/such/folder' });
  const { exitCode, stderr } = await inSession;
  assert.notEqual(exitCode, 0);
  assert.match(stderr, /no\/such\/folder/);
});

check('execute_stdin_is_empty_and_ends', async (t) => {
  for (const sessionId of [STATELESS, t.session()]) {
    const result = await within(PATIENCE_MS, 'the end of cat', t.client().commands.execute('cat; echo done', sessionId));
    assert.equal(result.stdout, 'done\n');
  }
});

check('execute_timeout_is_124_and_takes_the_tree', async (t) => {
  const name = mark();
  // iterate/iterate#2034: children that ignore TERM. They never end by themselves: who waits for that never answers.
  const line = `trap '' TERM; (trap '' TERM; setsid bash -c 'trap "" TERM; while :; do sleep 1; done' ${name}) & echo begun; sleep 300`;
  const [ms, result] = await longEnough((timeoutMs) => t.run(line, { timeoutMs }), ({ stdout }) => stdout !== '');
  assert.deepEqual([result.exitCode, result.success, result.stdout], [124, false, 'begun\n']);
  assert.match(result.stderr, new RegExp(`Command timed out after ${ms}ms`));
  await eventually('the tree is gone', async () => (await t.living(name)) === 0);
});

check('execute_does_not_wait_for_background_children', async (t) => {
  for (const sessionId of [STATELESS, t.session()]) {
    const { stdout } = await within(PATIENCE_MS, 'the answer', t.client().commands.execute('sleep 300 & echo $!', sessionId));
    assert.match(stdout, /^\d+\n$/);
    t.atEnd.push(() => process.kill(Number(stdout)));
  }
});

check('execute_23_megabytes_exactly_alone_and_in_a_session', async (t) => {
  const length = 23_000_000;
  const expected = numbers(length).toString();
  for (const sessionId of [STATELESS, t.session()]) {
    const result = await t.client().commands.execute(printNumbers(length), sessionId);
    assert.ok(result.stdout === expected, `${result.stdout.length} characters of ${sessionId}`);
  }
}, { seconds: 120 });

check('execute_bytes_that_are_no_text', async (t) => {
  const result = await t.run(String.raw`printf 'a\xff\xc3\xa9\xe2\x82z'`);
  assert.equal(result.stdout, new TextDecoder().decode(Buffer.from([97, 255, 0xc3, 0xa9, 0xe2, 0x82, 122])));
});

check('execute_in_the_background_is_a_process', async (t) => {
  const { json } = await t.post('/api/execute', { command: 'echo up; exit 6', sessionId: STATELESS, background: true });
  assert.ok(json.success && json.pid > 1 && json.processId);
  const events = await t.events(t.client().processes.streamProcessLogs(json.processId));
  assert.deepEqual([events.at(-1).type, events.at(-1).exitCode], ['exit', 6]);
});

check('execute_32_at_once', async (t) => {
  const client = t.client();
  const id = t.session();
  const all = [...Array(32).keys()].map((n) => client.commands.execute(`sleep 0.05; echo ${n}`, n % 2 ? id : STATELESS));
  const results = await Promise.all(all);
  results.forEach((result, n) => assert.deepEqual([result.exitCode, result.stdout], [0, `${n}\n`]));
});
