// Processes that outlive their caller: started, listed, read.

import assert from 'node:assert/strict';
import { eventually, numbers, printNumbers, refused } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { Gate } from '../../_shared/pace.mjs';
import { STATELESS, fresh, parseSSEStream, textOf } from '../support.mjs';

/** A reader of a process that is there: its first event has come. */
async function reader(t, processId) {
  const stream = parseSSEStream(await t.client().processes.streamProcessLogs(processId));
  const events = [(await stream.next()).value];
  const all = async () => {
    for await (const event of stream) events.push(event);
    return events;
  };
  return { all };
}

check('process_start_list_get', async (t) => {
  const { processes } = t.client();
  const processId = fresh('chosen');
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

check('process_list_by_status', async (t) => {
  const { processId } = await t.start('exit 3');
  await t.events(t.client().processes.streamProcessLogs(processId));
  const ids = async (status) => (await t.raw('GET', `/api/process/list?status=${status}`)).json.processes.map(({ id }) => id);
  assert.ok((await ids('failed')).includes(processId));
  assert.ok(!(await ids('running')).includes(processId));
});

check('process_statuses', async (t) => {
  const { processes } = t.client();
  for (const sessionId of [STATELESS, t.session()]) {
    for (const [command, status, exitCode] of [
      ['true', 'completed', 0],
      // There, one in a session that runs `exit N` never completes, and blocks all who ask for it.
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

check('process_start_refusals', async (t) => {
  const { processes } = t.client();
  const empty = await refused(processes.startProcess('  ', STATELESS), 'CommandError');
  assert.equal(empty.code, 'INVALID_COMMAND');
  await refused(processes.startProcess('true', STATELESS, { cwd: '/no/such/folder' }), 'CommandError', /does not exist/);
  await refused(processes.getProcess('nobody'), 'ProcessNotFoundError');
  await refused(processes.getProcessLogs('nobody'), 'ProcessNotFoundError');
  await refused(processes.streamProcessLogs('nobody'), 'ProcessNotFoundError');
  assert.equal((await t.post('/api/process/start', { command: 'true', sessionId: STATELESS, processId: ' ' })).status, 400);
});

check('process_of_a_repeated_id_is_the_newest', async (t) => {
  const processId = fresh('again');
  const first = await t.start('sleep 300', { processId });
  const second = await t.start('exit 8', { processId });
  t.atEnd.push(() => t.native('POST', `/v1/processes/pid:${first.pid}/kill`));
  const { processes } = t.client();
  await t.events(processes.streamProcessLogs(processId));
  const { process } = await processes.getProcess(processId);
  assert.deepEqual([process.pid, process.exitCode], [second.pid, 8]);
  assert.equal((await processes.listProcesses()).processes.filter(({ id }) => id === processId).length, 1);
});

check('process_env_cwd_and_stdin', async (t) => {
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
  assert.equal((await commands.execute('pwd; echo "[$B]"', sessionId)).stdout, '/usr\n[]\n', 'nothing flows back');
});

check('process_of_a_long_command_from_a_session', async (t) => {
  const word = 'x'.repeat(9_000);
  const { processId } = await t.start(`echo ${word}`, { sessionId: t.session() });
  assert.equal(textOf(await t.events(t.client().processes.streamProcessLogs(processId))), `${word}\n`);
});

check('process_logs_whole', async (t) => {
  const { processId } = await t.start(String.raw`echo out; echo err >&2; printf '\xff\xe2\x82\xac'`);
  await t.events(t.client().processes.streamProcessLogs(processId));
  const logs = await t.client().processes.getProcessLogs(processId);
  assert.deepEqual([logs.processId, logs.stdout, logs.stderr], [processId, 'out\n\ufffd\u20ac', 'err\n']);
});

check('process_stream_replays_everything_once_and_goes_on', async (t) => {
  const { processes } = t.client();
  const gate = new Gate(t.atEnd);
  const { processId } = await t.start(`for i in $(seq 1 200); do echo $i; done; ${gate.wait}; for i in $(seq 201 400); do echo $i; done`);
  const whole = [...Array(400).keys()].map((n) => `${n + 1}\n`).join('');
  await gate.arrived();
  const readers = await Promise.all([...Array(8)].map(() => reader(t, processId)));
  gate.letPass();
  for (const events of await Promise.all(readers.map(({ all }) => all()))) {
    assert.deepEqual([events[0].type, events[0].processId, events[0].status], ['process_info', processId, 'running']);
    assert.equal(textOf(events), whole);
  }
  const late = await t.events(processes.streamProcessLogs(processId));
  assert.deepEqual([textOf(late), late[0].status, late.at(-1).type], [whole, 'completed', 'exit']);
});

check('process_stream_of_a_flood_is_exact', async (t) => {
  const length = 20_000_000;
  const gate = new Gate(t.atEnd);
  const { processId } = await t.start(`${gate.wait}; ${printNumbers(length)}`);
  // Not all of it is kept for who comes later.
  const { all } = await reader(t, processId);
  gate.letPass();
  const events = await all();
  assert.ok(textOf(events) === numbers(length).toString(), `${textOf(events).length}`);
});

check('process_stream_of_more_than_is_kept_says_so', async (t) => {
  const { processId } = await t.start(printNumbers(15_000_000));
  await eventually('its end', async () => (await t.info(processId)).status === 'exited');
  const [info, ...rest] = await t.events(t.client().processes.streamProcessLogs(processId));
  assert.equal(info.missingBytes + Buffer.byteLength(textOf(rest)), 15_000_000);
  assert.ok(info.missingBytes > 0);
  const logs = await t.client().processes.getProcessLogs(processId);
  assert.equal(logs.missingBytes, info.missingBytes);
  assert.ok(textOf(rest) === logs.stdout && numbers(15_000_000).toString().endsWith(logs.stdout));
});

check('process_stream_left_and_taken_up_again_misses_nothing', async (t) => {
  const { processes } = t.client();
  const gate = new Gate(t.atEnd);
  const { processId } = await t.start(`for i in 1 2 3; do echo $i; done; ${gate.wait}; for i in 4 5 6; do echo $i; done`);
  const left = (await processes.streamProcessLogs(processId)).getReader();
  await left.read();
  await left.cancel();
  const { all } = await reader(t, processId);
  gate.letPass();
  assert.equal(textOf(await all()), '1\n2\n3\n4\n5\n6\n');
});

check('process_stream_characters_that_come_in_parts', async (t) => {
  const { processId } = await t.start(String.raw`printf '\xf0\x9f'; sleep 0.3; printf '\x98\x80'; printf '\xff'`);
  assert.equal(textOf(await t.events(t.client().processes.streamProcessLogs(processId))), '\u{1f600}\ufffd');
});

check('process_can_be_waited_for_by_its_log', async (t) => {
  // As the SDK's waitForLog does it: what is there first, then what comes.
  const { processes } = t.client();
  const { processId } = await t.start('echo starting; sleep 0.5; echo "ready on 8080"; sleep 300');
  let text = '';
  for await (const event of parseSSEStream(await processes.streamProcessLogs(processId))) {
    text += event.data ?? '';
    if (/ready on (\d+)/.test(text)) break;
  }
  assert.match(text, /ready on 8080/);
});

// cloudflare/sandbox-sdk#891
check('process_survives_the_end_of_its_session', async (t) => {
  const sessionId = t.session();
  const { processId } = await t.start('echo up; sleep 300', { sessionId });
  await t.client().utils.deleteSession(sessionId);
  assert.equal((await t.client().processes.getProcess(processId)).process.status, 'running');
});
