// Processes: start, list, logs, streams.

import assert from 'node:assert/strict';
import { eventually, numbers, printNumbers, expectRejection } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { Gate } from '../../_shared/gate.mjs';
import { withoutHistory } from '../../_shared/server.mjs';
import { Context, STATELESS, uniqueName, parseSSEStream, textOf } from '../support.mjs';

/** A stream reader that has received its first event. */
async function reader(t, processId) {
  const stream = parseSSEStream(await t.client().processes.streamProcessLogs(processId));
  const events = [(await stream.next()).value];
  const all = async () => {
    for await (const event of stream) events.push(event);
    return events;
  };
  return { all };
}

check('process_is_started_listed_and_read', async (t) => {
  const { processes } = t.client();
  const processId = uniqueName('chosen');
  const started = await t.start('echo up; sleep 300', { processId });
  assert.deepEqual([started.success, started.processId, started.command], [true, processId, 'echo up; sleep 300']);
  const { process } = await processes.getProcess(processId);
  assert.deepEqual([process.id, process.pid, process.command, process.status], [processId, started.pid, 'echo up; sleep 300', 'running']);
  assert.ok(Math.abs(Date.parse(process.startTime) - Date.now()) < 60_000);
  assert.ok(!('exitCode' in process) && !('endTime' in process));
  const listed = (await processes.listProcesses()).processes.find(({ id }) => id === processId);
  assert.deepEqual([listed.pid, listed.status], [started.pid, 'running']);
  const { processId: own } = await t.start('sleep 300');
  assert.match(own, /^proc_/);
  assert.equal((await processes.getProcess(own)).process.status, 'running');
});

check('process_list_filters_by_status', async (t) => {
  const { processId } = await t.start('exit 3');
  await t.events(t.client().processes.streamProcessLogs(processId));
  const ids = async (status) => (await t.raw('GET', `/api/process/list?status=${status}`)).json.processes.map(({ id }) => id);
  assert.ok((await ids('failed')).includes(processId));
  assert.ok(!(await ids('running')).includes(processId));
});

check('process_status_and_exit_code_match_the_exit', async (t) => {
  const { processes } = t.client();
  for (const sessionId of [STATELESS, t.session()]) {
    for (const [command, status, exitCode] of [
      ['true', 'completed', 0],
      // The original never completes a session process that runs `exit N`, and blocks every request for it.
      ['exit 3', 'failed', 3],
      ['kill -9 $$', 'killed', 137],
      ['kill -TERM $$', 'killed', 143],
      ['no-such-command-here', 'failed', 127],
    ]) {
      const { processId } = await t.start(command, { sessionId });
      const events = await t.events(processes.streamProcessLogs(processId));
      const { process } = await processes.getProcess(processId);
      assert.deepEqual([process.status, process.exitCode], [status, exitCode], command);
      assert.ok(Date.parse(process.endTime) >= Date.parse(process.startTime));
      assert.deepEqual([events.at(-1).type, events.at(-1).exitCode], ['exit', exitCode]);
      assert.equal(events.at(-1).data, `Process ${status} with exit code ${exitCode}`);
    }
  }
});

check('process_start_refuses_invalid_requests', async (t) => {
  const { processes } = t.client();
  const empty = await expectRejection(processes.startProcess('  ', STATELESS), 'CommandError');
  assert.equal(empty.code, 'INVALID_COMMAND');
  await expectRejection(processes.startProcess('true', STATELESS, { cwd: '/no/such/directory' }), 'CommandError', /does not exist/);
  await expectRejection(processes.getProcess('unknown'), 'ProcessNotFoundError');
  await expectRejection(processes.getProcessLogs('unknown'), 'ProcessNotFoundError');
  await expectRejection(processes.streamProcessLogs('unknown'), 'ProcessNotFoundError');
  assert.equal((await t.post('/api/process/start', { command: 'true', sessionId: STATELESS, processId: ' ' })).status, 400);
});

check('process_id_used_twice_names_the_newest_process', async (t) => {
  const processId = uniqueName('again');
  const first = await t.start('sleep 300', { processId });
  const second = await t.start('exit 8', { processId });
  t.cleanUpSteps.push(() => t.native('POST', `/v1/processes/pid:${first.pid}/kill`));
  const { processes } = t.client();
  await t.events(processes.streamProcessLogs(processId));
  const { process } = await processes.getProcess(processId);
  assert.deepEqual([process.pid, process.exitCode], [second.pid, 8]);
  assert.equal((await processes.listProcesses()).processes.filter(({ id }) => id === processId).length, 1);
});

check('process_has_env_cwd_and_empty_stdin', async (t) => {
  const { processId } = await t.start('echo $A; pwd; cat; echo end', { env: { A: 'x y' }, cwd: '/usr' });
  const events = await t.events(t.client().processes.streamProcessLogs(processId));
  assert.equal(textOf(events), 'x y\n/usr\nend\n');
});

check('process_from_a_session_has_its_state', async (t) => {
  const sessionId = t.session();
  const { commands, processes } = t.client();
  await commands.execute('cd /usr; export A=1; f() { echo "f $A $B"; }', sessionId);
  const { processId } = await t.start('pwd; f', { sessionId, env: { B: '2' } });
  assert.equal(textOf(await t.events(processes.streamProcessLogs(processId))), '/usr\nf 1 2\n');
  const elsewhere = await t.start('pwd', { sessionId, cwd: '/tmp' });
  assert.equal(textOf(await t.events(processes.streamProcessLogs(elsewhere.processId))), '/tmp\n');
  assert.equal((await processes.getProcess(elsewhere.processId)).process.command, 'pwd');
  assert.equal((await commands.execute('pwd; echo "[$B]"', sessionId)).stdout, '/usr\n[]\n', 'the session is unchanged');
});

check('process_from_a_session_runs_a_9_kilobyte_command', async (t) => {
  const word = 'x'.repeat(9_000);
  const { processId } = await t.start(`echo ${word}`, { sessionId: t.session() });
  assert.equal(textOf(await t.events(t.client().processes.streamProcessLogs(processId))), `${word}\n`);
});

check('process_logs_contain_both_streams', async (t) => {
  const { processId } = await t.start(String.raw`echo out; echo err >&2; printf '\xff\xe2\x82\xac'`);
  await t.events(t.client().processes.streamProcessLogs(processId));
  const logs = await t.client().processes.getProcessLogs(processId);
  assert.deepEqual([logs.processId, logs.stdout, logs.stderr], [processId, 'out\n\ufffd\u20ac', 'err\n']);
});

check('process_stream_replays_all_output_once_and_follows', async (t) => {
  const { processes } = t.client();
  const gate = new Gate(t.cleanUpSteps);
  const { processId } = await t.start(`for i in $(seq 1 200); do echo $i; done; ${gate.waitCommand}; for i in $(seq 201 400); do echo $i; done`);
  const whole = [...Array(400).keys()].map((n) => `${n + 1}\n`).join('');
  await gate.waitForArrivals();
  const readers = await Promise.all([...Array(8)].map(() => reader(t, processId)));
  gate.release();
  for (const events of await Promise.all(readers.map(({ all }) => all()))) {
    assert.deepEqual([events[0].type, events[0].processId, events[0].status], ['process_info', processId, 'running']);
    assert.equal(textOf(events), whole);
  }
  const late = await t.events(processes.streamProcessLogs(processId));
  assert.deepEqual([textOf(late), late[0].status, late.at(-1).type], [whole, 'completed', 'exit']);
});

check('process_stream_of_a_flood_is_exact', async (t) => {
  const length = 20_000_000;
  const gate = new Gate(t.cleanUpSteps);
  const { processId } = await t.start(`${gate.waitCommand}; ${printNumbers(length)}`);
  // A later reader would not find all of it in the log.
  const { all } = await reader(t, processId);
  gate.release();
  const events = await all();
  assert.ok(textOf(events) === numbers(length).toString(), `${textOf(events).length}`);
});

// More than twice what is kept in memory: the first half comes from the history.
check('process_logs_of_22_megabytes_are_whole', async (t) => {
  const length = 22_000_000;
  // At a pace that a debug build stores on a busy machine.
  const paced = `${printNumbers(length)} | for i in $(seq 110); do head -c 200000; sleep 0.02; done`;
  const { processes } = t.client();
  const { processId } = await t.start(paced);
  await eventually('its exit', async () => (await t.info(processId)).status === 'exited');
  const whole = numbers(length).toString();
  const logs = await processes.getProcessLogs(processId);
  assert.equal(logs.stdout.length, length);
  assert.ok(logs.stdout === whole, 'getProcessLogs returns other bytes');
  const streamed = await t.events(processes.streamProcessLogs(processId));
  assert.ok(textOf(streamed) === whole, 'streamProcessLogs returns other bytes');
}, { seconds: 60 });

check('process_stream_reports_the_bytes_it_misses', async (t) => {
  const own = await withoutHistory(t, Context);
  const { processId } = await own.start(printNumbers(15_000_000));
  await eventually('its exit', async () => (await own.info(processId)).status === 'exited');
  const [info, ...rest] = await own.events(own.client().processes.streamProcessLogs(processId));
  assert.equal(info.missingBytes + Buffer.byteLength(textOf(rest)), 15_000_000);
  assert.ok(info.missingBytes > 0);
  const logs = await own.client().processes.getProcessLogs(processId);
  assert.equal(logs.missingBytes, info.missingBytes);
  assert.ok(textOf(rest) === logs.stdout && numbers(15_000_000).toString().endsWith(logs.stdout));
});

check('process_stream_reopened_after_a_cancel_misses_nothing', async (t) => {
  const { processes } = t.client();
  const gate = new Gate(t.cleanUpSteps);
  const { processId } = await t.start(`for i in 1 2 3; do echo $i; done; ${gate.waitCommand}; for i in 4 5 6; do echo $i; done`);
  const left = (await processes.streamProcessLogs(processId)).getReader();
  await left.read();
  await left.cancel();
  const { all } = await reader(t, processId);
  gate.release();
  assert.equal(textOf(await all()), '1\n2\n3\n4\n5\n6\n');
});

check('process_stream_joins_characters_split_over_writes', async (t) => {
  const { processId } = await t.start(String.raw`printf '\xf0\x9f'; sleep 0.3; printf '\x98\x80'; printf '\xff'`);
  assert.equal(textOf(await t.events(t.client().processes.streamProcessLogs(processId))), '\u{1f600}\ufffd');
});

check('process_log_pattern_can_be_waited_for', async (t) => {
  // Like the SDK's waitForLog: existing output first, then new output.
  const { processes } = t.client();
  const { processId } = await t.start('echo starting; sleep 0.5; echo "ready on 8080"; sleep 300');
  let text = '';
  for await (const event of parseSSEStream(await processes.streamProcessLogs(processId))) {
    text += event.data ?? '';
    if (/ready on (\d+)/.test(text)) break;
  }
  assert.match(text, /ready on 8080/);
});

// Regression (cloudflare/sandbox-sdk#891).
check('process_survives_the_end_of_its_session', async (t) => {
  const sessionId = t.session();
  const { processId } = await t.start('echo up; sleep 300', { sessionId });
  await t.client().utils.deleteSession(sessionId);
  assert.equal((await t.client().processes.getProcess(processId)).process.status, 'running');
});
