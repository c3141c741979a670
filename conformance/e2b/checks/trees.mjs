// Kills and time limits end the whole tree.

import assert from 'node:assert/strict';
import { eventually, uniqueMarker, expectRejection } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';

const treeCommand = (word) =>
  `sh -c 'sleep 300; : ${word}' & setsid sh -c 'trap "" TERM HUP; sleep 300; : ${word}' & (setsid sh -c 'sleep 300; : ${word}' &) ; echo up; sleep 300; : ${word}`;

// Regression (e2b-dev/E2B#1034).
check('kill_ends_the_whole_tree', async (t) => {
  const word = uniqueMarker();
  const handle = await t.background(treeCommand(word));
  await t.waitForOutput(handle.pid, 'up');
  await eventually('the tree runs', async () => (await t.countProcesses(word)) >= 4);
  assert.equal(await handle.kill(), true);
  await expectRejection(handle.wait(), 'CommandExitError', /signal: killed/);
  assert.equal(await t.countProcesses(word), 0);
  assert.equal(await handle.kill(), false, 'nothing is left to kill');
});

// Regression (e2b-dev/E2B#1031).
check('timeout_kills_the_whole_tree', async (t) => {
  const word = uniqueMarker();
  await expectRejection(t.run(treeCommand(word), { timeoutMs: 1_500 }), 'TimeoutError');
  await eventually('the tree is killed', async () => (await t.countProcesses(word)) === 0);
});

check('kill_of_an_exited_process_ends_its_remaining_tree', async (t) => {
  const word = uniqueMarker();
  const handle = await t.background(`setsid sh -c 'sleep 300; : ${word}' & echo left`);
  await handle.wait();
  await eventually('the remaining child runs', async () => (await t.countProcesses(word)) >= 1);
  assert.equal(await handle.kill(), true);
  assert.equal(await t.countProcesses(word), 0);
  assert.equal(await handle.kill(), false);
});

check('kill_of_an_unknown_process_returns_false', async (t) => {
  const sandbox = await t.sandbox();
  assert.equal(await sandbox.commands.kill(999999), false);
  const handle = await t.background('sleep 300');
  assert.equal(await sandbox.commands.kill(handle.pid), true);
});

check('signal_term_can_be_handled', async (t) => {
  const handle = await t.background(`trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.1; done`);
  await t.waitForOutput(handle.pid, 'up');
  const { status, json } = await t.call('SendSignal', { process: { pid: handle.pid }, signal: 'SIGNAL_SIGTERM' });
  assert.deepEqual([status, json], [200, {}]);
  const error = await expectRejection(handle.wait(), 'CommandExitError');
  assert.deepEqual([error.exitCode, error.stdout], [5, 'up\nbye\n']);
});

// The original sends only KILL and TERM.
check('signal_accepts_other_signals_and_refuses_unknown_ones', async (t) => {
  const handle = await t.background(`trap 'echo int' INT; trap 'echo hup' HUP; echo up; while :; do sleep 0.1; done`);
  await t.waitForOutput(handle.pid, 'up');
  for (const [signal, word] of [['SIGNAL_SIGINT', 'int'], [1, 'hup']]) {
    assert.equal((await t.call('SendSignal', { process: { pid: handle.pid }, signal })).status, 200);
    await t.waitForOutput(handle.pid, word);
  }
  for (const signal of [0, 'SIGNAL_UNSPECIFIED', 99, -1]) {
    const { status, json } = await t.call('SendSignal', { process: { pid: handle.pid }, signal });
    assert.deepEqual([status, json.code], [501, 'unimplemented']);
    assert.match(json.message, /invalid signal/);
  }
  assert.equal((await t.call('SendSignal', { process: { pid: handle.pid }, signal: 'NOPE' })).json.code, 'invalid_argument');
});

// The original may lose output that is still in the pipe.
check('kill_loses_no_printed_output', async (t) => {
  const handle = await t.background('seq 1 20000; echo all; sleep 300');
  await t.waitForOutput(handle.pid, 'all');
  await handle.kill();
  const error = await expectRejection(handle.wait(), 'CommandExitError');
  assert.ok(error.stdout.endsWith('20000\nall\n'));
});
