// Killing processes.

import assert from 'node:assert/strict';
import { eventually, uniqueMarker, expectRejection } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { Gate } from '../../_shared/gate.mjs';
import { checkConcurrently } from '../concurrent.mjs';
import { startServer } from '../../_shared/server.mjs';
import { STATELESS, Context } from '../support.mjs';

check('kill_ends_the_whole_tree', async (t) => {
  const name = uniqueMarker();
  const { processId } = await t.start(`(setsid bash -c 'exec -a ${name} sleep 300' &) ; (exec -a ${name} sleep 300) & echo up; exec -a ${name} sleep 300`);
  await eventually('three of them run', async () => (await t.countProcesses(name)) === 3);
  const { processes } = t.client();
  const killed = await processes.killProcess(processId);
  assert.deepEqual([killed.success, killed.processId], [true, processId]);
  await eventually('all are killed', async () => (await t.countProcesses(name)) === 0);
  const { process } = await processes.getProcess(processId);
  assert.deepEqual([process.status, process.exitCode], ['killed', 143]);
});

checkConcurrently('kill_sends_sigkill_after_five_seconds', async (t) => {
  const name = uniqueMarker();
  const { processId } = await t.start(`trap '' TERM; echo up; while :; do sleep 0.2; done # ${name}`);
  await eventually('up', async () => (await t.client().processes.getProcessLogs(processId)).stdout === 'up\n');
  const started = Date.now();
  await t.client().processes.killProcess(processId);
  assert.ok(Date.now() - started >= 4_500, 'it has five seconds before the kill');
  await eventually('its exit', async () => (await t.client().processes.getProcess(processId)).process.exitCode === 137);
});

check('kill_of_a_process_that_exits_with_0_reports_killed', async (t) => {
  const { processId } = await t.start(`trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done`);
  await eventually('up', async () => (await t.client().processes.getProcessLogs(processId)).stdout === 'up\n');
  await t.client().processes.killProcess(processId);
  const { process } = await t.client().processes.getProcess(processId);
  assert.deepEqual([process.status, process.exitCode], ['killed', 0]);
});

check('kill_refuses_unknown_and_exited_processes', async (t) => {
  const { processes } = t.client();
  await expectRejection(processes.killProcess('unknown'), 'ProcessNotFoundError');
  const { processId } = await t.start('true');
  await t.events(processes.streamProcessLogs(processId));
  await expectRejection(processes.killProcess(processId), 'CommandNotFoundError');
  // A process that has exited can be killed while a part of its tree runs.
  const name = uniqueMarker();
  const left = await t.start(`(exec -a ${name} sleep 300) & sleep 0.3`);
  await t.events(processes.streamProcessLogs(left.processId));
  assert.equal(await t.countProcesses(name), 1);
  assert.equal((await processes.killProcess(left.processId)).success, true);
  await eventually('the tree is killed', async () => (await t.countProcesses(name)) === 0);
});

checkConcurrently('kill_all_signals_all_processes_at_once', async (t) => {
  // Uses its own server, because it kills all processes.
  const server = await startServer(['--no-token', '--limit', 'stopGraceMs=300']);
  const own = new Context(server.url);
  t.cleanUpSteps.push(() => server.stop());
  const { processes } = own.client();
  const gate = new Gate(t.cleanUpSteps);
  const slow = `trap '${gate.waitCommand}; exit 0' TERM; echo up; while :; do sleep 300 & wait; done`;
  const started = await Promise.all([...Array(4)].map(() => processes.startProcess(slow, STATELESS)));
  for (const { processId } of started) {
    await eventually('up', async () => (await processes.getProcessLogs(processId)).stdout === 'up\n');
  }
  const killing = processes.killAllProcesses();
  // None exits before each has received the first signal. Signalled one after another, they would be killed at the
  // gate.
  await gate.waitForArrivals(4);
  gate.release(4);
  const { success, cleanedCount } = await killing;
  assert.deepEqual([success, cleanedCount], [true, 4]);
  for (const { processId } of started) {
    const { process } = await processes.getProcess(processId);
    assert.deepEqual([process.status, process.exitCode], ['killed', 0]);
  }
});

check('process_time_limit_ends_the_tree_with_124', async (t) => {
  const name = uniqueMarker();
  const { processId } = await t.start(`echo up; (exec -a ${name} sleep 300)`, { timeoutMs: 600 });
  const events = await t.events(t.client().processes.streamProcessLogs(processId));
  assert.deepEqual([events.at(-1).type, events.at(-1).exitCode], ['exit', 124]);
  assert.equal((await t.client().processes.getProcess(processId)).process.status, 'failed');
  await eventually('the tree is killed', async () => (await t.countProcesses(name)) === 0);
});
