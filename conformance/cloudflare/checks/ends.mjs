// How processes are made to end.

import assert from 'node:assert/strict';
import { eventually, mark, refused } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { Gate } from '../../_shared/pace.mjs';
import { early } from '../early.mjs';
import { startServer } from '../../_shared/server.mjs';
import { STATELESS, Context } from '../support.mjs';

check('kill_takes_the_whole_tree', async (t) => {
  const name = mark();
  const { processId } = await t.start(`(setsid bash -c 'exec -a ${name} sleep 300' &) ; (exec -a ${name} sleep 300) & echo up; exec -a ${name} sleep 300`);
  await eventually('three of them', async () => (await t.living(name)) === 3);
  const { processes } = t.client();
  const killed = await processes.killProcess(processId);
  assert.deepEqual([killed.success, killed.processId], [true, processId]);
  await eventually('none of them', async () => (await t.living(name)) === 0);
  const { process } = await processes.getProcess(processId);
  assert.deepEqual([process.status, process.exitCode], ['killed', 143]);
});

early('kill_comes_for_those_who_ignore_the_first_signal', async (t) => {
  const name = mark();
  const { processId } = await t.start(`trap '' TERM; echo up; while :; do sleep 0.2; done # ${name}`);
  await eventually('up', async () => (await t.client().processes.getProcessLogs(processId)).stdout === 'up\n');
  const begun = Date.now();
  await t.client().processes.killProcess(processId);
  assert.ok(Date.now() - begun >= 4_500, 'it has five seconds');
  await eventually('its end', async () => (await t.client().processes.getProcess(processId)).process.exitCode === 137);
});

check('kill_of_one_that_ended_in_good_order_is_a_kill', async (t) => {
  const { processId } = await t.start(`trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done`);
  await eventually('up', async () => (await t.client().processes.getProcessLogs(processId)).stdout === 'up\n');
  await t.client().processes.killProcess(processId);
  const { process } = await t.client().processes.getProcess(processId);
  assert.deepEqual([process.status, process.exitCode], ['killed', 0]);
});

check('kill_of_nobody_and_of_who_has_ended', async (t) => {
  const { processes } = t.client();
  await refused(processes.killProcess('nobody'), 'ProcessNotFoundError');
  const { processId } = await t.start('true');
  await t.events(processes.streamProcessLogs(processId));
  await refused(processes.killProcess(processId), 'CommandNotFoundError');
  // What is left of a tree is no nobody.
  const name = mark();
  const left = await t.start(`(exec -a ${name} sleep 300) & sleep 0.3`);
  await t.events(processes.streamProcessLogs(left.processId));
  assert.equal(await t.living(name), 1);
  assert.equal((await processes.killProcess(left.processId)).success, true);
  await eventually('nothing is left', async () => (await t.living(name)) === 0);
});

early('kill_all_at_once', async (t) => {
  // On a server of its own: it takes everything.
  const server = await startServer(['--no-token', '--limit', 'stopGraceMs=300']);
  const own = new Context(server.url);
  t.atEnd.push(() => server.stop());
  const { processes } = own.client();
  const gate = new Gate(t.atEnd);
  const slow = `trap '${gate.wait}; exit 0' TERM; echo up; while :; do sleep 300 & wait; done`;
  const started = await Promise.all([...Array(4)].map(() => processes.startProcess(slow, STATELESS)));
  for (const { processId } of started) {
    await eventually('up', async () => (await processes.getProcessLogs(processId)).stdout === 'up\n');
  }
  const killing = processes.killAllProcesses();
  // None of them ends before each has had the first signal. One after another, they would be killed while they wait here.
  await gate.arrived(4);
  gate.letPass(4);
  const { success, cleanedCount } = await killing;
  assert.deepEqual([success, cleanedCount], [true, 4]);
  for (const { processId } of started) {
    const { process } = await processes.getProcess(processId);
    assert.deepEqual([process.status, process.exitCode], ['killed', 0]);
  }
});

check('process_time_limit', async (t) => {
  const name = mark();
  const { processId } = await t.start(`echo up; (exec -a ${name} sleep 300)`, { timeoutMs: 600 });
  const events = await t.events(t.client().processes.streamProcessLogs(processId));
  assert.deepEqual([events.at(-1).type, events.at(-1).exitCode], ['exit', 124]);
  assert.equal((await t.client().processes.getProcess(processId)).process.status, 'failed');
  await eventually('none of it', async () => (await t.living(name)) === 0);
});
