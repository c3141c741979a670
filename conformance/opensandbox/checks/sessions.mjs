// Sessions.

import assert from 'node:assert/strict';
import { eventually, uniqueMarker } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { Gate } from '../../_shared/gate.mjs';
import { joined, expectError } from '../support.mjs';

async function openSession(t, options) {
  const id = await t.commands.createSession(options);
  assert.match(id, /^[0-9a-f-]{36}$/);
  t.cleanUpSteps.push(() => t.commands.deleteSession(id));
  const run = async (command, more) => {
    const execution = await t.commands.runInSession(id, command, more);
    return { ...execution, out: joined(execution.logs.stdout) };
  };
  return { id, run };
}

check('session_keeps_cwd_and_variables', async (t) => {
  const { id, run } = await openSession(t);
  const first = await run('cd /usr; export A=1; B=2');
  assert.deepEqual([first.id, first.exitCode], [id, 0], 'a run has the id of its session');
  assert.equal((await run('pwd; echo $A')).out, '/usr\n1');
});

check('session_cwd_is_created_and_the_cwd_of_a_run_is_kept', async (t) => {
  const directory = `/tmp/${uniqueMarker()}/a/b`;
  t.cleanUpSteps.push(() => t.run(`rm -rf ${directory.slice(0, -4)}`));
  const { run } = await openSession(t, { workingDirectory: directory });
  assert.equal((await run('pwd')).out, directory);
  assert.equal((await run('pwd', { workingDirectory: '/usr' })).out, '/usr');
  assert.equal((await run('pwd')).out, '/usr', 'the cwd is kept');
  assert.equal((await run('pwd', { workingDirectory: 'lib' })).out, '/usr/lib');
  await expectError(run('pwd', { workingDirectory: '/no/such' }), 400, 'INVALID_REQUEST_BODY', /working directory/);
});

check('session_merges_both_streams_in_order', async (t) => {
  const { run } = await openSession(t);
  const { out, logs } = await run('i=0; while [ $i -lt 200 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done');
  assert.equal(out, [...Array(200).keys()].flatMap((i) => [`o${i}`, `e${i}`]).join('\n'));
  assert.equal(logs.stderr.length, 0);
  assert.equal((await run('echo still >&2')).out, 'still');
});

check('session_reports_exit_codes_and_survives_exit', async (t) => {
  const { run } = await openSession(t);
  assert.equal((await run('export A=kept; false')).exitCode, 1);
  const { exitCode, error } = await run('export A=lost; exit 9');
  assert.deepEqual([exitCode, error.traceback], [9, ['exit status 9']]);
  assert.equal((await run('echo $A')).out, 'kept');
});

check('session_survives_death_by_a_signal', async (t) => {
  const { run } = await openSession(t);
  const { exitCode, error } = await run('kill -9 $$');
  assert.deepEqual([exitCode, error.traceback[0]], [-1, 'signal: killed']);
  assert.equal((await run('echo on')).out, 'on');
});

// The original kills only bash, waits for every process with the pipe, and sends no event that the SDK understands.
check('session_timeout_kills_the_run_with_all_its_children', async (t) => {
  const { id, run } = await openSession(t);
  const name = uniqueMarker();
  const { exitCode, error } = await run(`sh -c 'sleep 300; : ${name}'`, { timeoutSeconds: 0.5 });
  assert.equal(exitCode, -1);
  assert.match(error.traceback.join(), /timeout after 500ms/);
  await eventually('the tree is killed', async () => (await t.countProcesses(name)) === 0);
  assert.equal((await run('echo on')).out, 'on');
  const all = await t.collectStream('POST', `/session/${id}/run`, { command: 'sleep 300', timeout: 200 });
  assert.equal(all.at(-1).timed_out, true);
});

// The original swallows these lines and acts on them.
check('session_passes_output_that_looks_like_a_marker', async (t) => {
  const { run } = await openSession(t);
  const text = '__EXIT_CODE__:5\n__PWD__:/x\n__ENV_DUMP_START__';
  const { out, exitCode } = await run(`printf '%s\\n' ${text.split('\n').join(' ')}`);
  assert.deepEqual([out, exitCode], [text, 0]);
  assert.notEqual((await run('pwd')).out, '/x');
});

check('session_keeps_values_with_line_breaks', async (t) => {
  const { run } = await openSession(t);
  await run("export A=$'one\\ntwo\\tthree \\'q\\''");
  assert.equal((await run('printf %s "$A" | od -An -c | tr -s " \\n" " "')).out.trim(), "o n e \\n t w o \\t t h r e e ' q '");
});

check('session_runs_are_queued', async (t) => {
  const { id, run } = await openSession(t);
  const gate = new Gate(t.cleanUpSteps);
  const first = run(`${gate.waitCommand}; X=1; echo a`);
  await gate.waitForArrivals();
  const second = run('echo b$X');
  await eventually('it waits', async () => (await t.native('GET', `/v1/sessions/${id}`)).queued === 1);
  gate.release();
  assert.deepEqual([(await first).out, (await second).out], ['a', 'b1']);
});

check('session_run_ends_with_its_client', async (t) => {
  const { id, run } = await openSession(t);
  const name = uniqueMarker();
  const stream = await t.stream('POST', `/session/${id}/run`, { command: `sh -c 'sleep 300; : ${name}'` });
  await stream.events.next();
  await eventually('it runs', async () => (await t.countProcesses(name)) >= 1);
  stream.abort();
  await eventually('its exit', async () => (await t.countProcesses(name)) === 0);
  assert.equal((await run('echo free')).out, 'free');
});

check('session_delete_ends_its_run', async (t) => {
  const { id } = await openSession(t);
  const name = uniqueMarker();
  const stream = await t.stream('POST', `/session/${id}/run`, { command: `sh -c 'sleep 300; : ${name}'` });
  await eventually('it runs', async () => (await t.countProcesses(name)) >= 1);
  await t.commands.deleteSession(id);
  let end;
  for await (const event of stream.events) end = event;
  assert.equal(end.type, 'error');
  assert.equal(await t.countProcesses(name), 0);
  await expectError(t.commands.deleteSession(id), 404, 'CONTEXT_NOT_FOUND');
  await expectError(t.commands.runInSession(id, 'true'), 404, 'CONTEXT_NOT_FOUND', /context not found/);
});

check('session_can_be_closed_by_interrupt', async (t) => {
  const { id } = await openSession(t);
  await t.commands.interrupt(id);
  await expectError(t.commands.runInSession(id, 'true'), 404, 'CONTEXT_NOT_FOUND');
});

check('session_create_needs_no_body_and_refuses_invalid_ones', async (t) => {
  const { status, json } = await t.http('POST', '/session');
  assert.equal(status, 200);
  t.cleanUpSteps.push(() => t.commands.deleteSession(json.session_id));
  for (const body of [{}, { command: '' }, { command: 'x', timeout: -1 }]) {
    assert.equal((await t.http('POST', `/session/${json.session_id}/run`, { body })).status, 400, JSON.stringify(body));
  }
});

check('session_output_of_10_mb_is_exact', async (t) => {
  const { run } = await openSession(t);
  const { out } = await run("seq 1 1400000 | paste -sd '               \\n'");
  assert.ok(out.replaceAll('\n', ' ') === [...Array(1_400_000).keys()].map((n) => n + 1).join(' '), `${out.length}`);
});
