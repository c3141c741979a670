// Kills and time limits take everything along.

import assert from 'node:assert/strict';
import { eventually, mark, refused } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';

const family = (word) =>
  `sh -c 'sleep 300; : ${word}' & setsid sh -c 'trap "" TERM HUP; sleep 300; : ${word}' & (setsid sh -c 'sleep 300; : ${word}' &) ; echo up; sleep 300; : ${word}`;

// e2b-dev/E2B#1034
check('kill_takes_the_whole_tree', async (t) => {
  const word = mark();
  const handle = await t.background(family(word));
  await t.untilPrinted(handle.pid, 'up');
  await eventually('a family', async () => (await t.living(word)) >= 4);
  assert.equal(await handle.kill(), true);
  await refused(handle.wait(), 'CommandExitError', /signal: killed/);
  assert.equal(await t.living(word), 0);
  assert.equal(await handle.kill(), false, 'nothing is left to kill');
});

// e2b-dev/E2B#1031
check('timeout_kills_the_whole_tree', async (t) => {
  const word = mark();
  await refused(t.run(family(word), { timeoutMs: 1_500 }), 'TimeoutError');
  await eventually('the end of all', async () => (await t.living(word)) === 0);
});

check('kill_of_one_that_ended_takes_what_it_left', async (t) => {
  const word = mark();
  const handle = await t.background(`setsid sh -c 'sleep 300; : ${word}' & echo left`);
  await handle.wait();
  await eventually('the rest', async () => (await t.living(word)) >= 1);
  assert.equal(await handle.kill(), true);
  assert.equal(await t.living(word), 0);
  assert.equal(await handle.kill(), false);
});

check('kill_of_nobody_is_false', async (t) => {
  const sandbox = await t.sandbox();
  assert.equal(await sandbox.commands.kill(999999), false);
  const handle = await t.background('sleep 300');
  assert.equal(await sandbox.commands.kill(handle.pid), true);
});

check('signal_term_can_be_handled', async (t) => {
  const handle = await t.background(`trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.1; done`);
  await t.untilPrinted(handle.pid, 'up');
  const { status, json } = await t.call('SendSignal', { process: { pid: handle.pid }, signal: 'SIGNAL_SIGTERM' });
  assert.deepEqual([status, json], [200, {}]);
  const error = await refused(handle.wait(), 'CommandExitError');
  assert.deepEqual([error.exitCode, error.stdout], [5, 'up\nbye\n']);
});

// There only KILL and TERM can be sent.
check('signal_others_too_and_nonsense_is_unimplemented', async (t) => {
  const handle = await t.background(`trap 'echo int' INT; trap 'echo hup' HUP; echo up; while :; do sleep 0.1; done`);
  await t.untilPrinted(handle.pid, 'up');
  for (const [signal, word] of [['SIGNAL_SIGINT', 'int'], [1, 'hup']]) {
    assert.equal((await t.call('SendSignal', { process: { pid: handle.pid }, signal })).status, 200);
    await t.untilPrinted(handle.pid, word);
  }
  for (const signal of [0, 'SIGNAL_UNSPECIFIED', 99, -1]) {
    const { status, json } = await t.call('SendSignal', { process: { pid: handle.pid }, signal });
    assert.deepEqual([status, json.code], [501, 'unimplemented']);
    assert.match(json.message, /invalid signal/);
  }
  assert.equal((await t.call('SendSignal', { process: { pid: handle.pid }, signal: 'NOPE' })).json.code, 'invalid_argument');
});

// What was in the pipe may be lost there.
check('kill_loses_nothing_that_was_printed', async (t) => {
  const handle = await t.background('seq 1 20000; echo all; sleep 300');
  await t.untilPrinted(handle.pid, 'all');
  await handle.kill();
  const error = await refused(handle.wait(), 'CommandExitError');
  assert.ok(error.stdout.endsWith('20000\nall\n'));
});
