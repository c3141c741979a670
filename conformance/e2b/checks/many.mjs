// Many clients at once, and stalled clients.

import assert from 'node:assert/strict';
import { TIMEOUT_MS, eventually, numbers, printNumbers, withTimeout } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { withoutHistory } from '../../_shared/server.mjs';
import { Context, HOME } from '../support.mjs';

check('many_commands_run_at_once', async (t) => {
  const sandbox = await t.sandbox();
  const all = [...Array(32).keys()].map((n) => sandbox.commands.run(`echo ${n}; ${printNumbers(100_000)}; exit 0`, { envs: { HOME } }));
  const expected = numbers(100_000).toString();
  (await Promise.all(all)).forEach(({ stdout }, n) => assert.ok(stdout === `${n}\n${expected}`, `${n}`));
});

check('many_clients_receive_the_same_output', async (t) => {
  const handle = await t.background(`head -n 1; ${printNumbers(3_000_000)}`, { stdin: true });
  const sandbox = await t.sandbox();
  const others = await Promise.all([1, 2].map(() => sandbox.commands.connect(handle.pid, { timeoutMs: 0 })));
  await handle.sendStdin('go\n');
  const expected = `go\n${numbers(3_000_000)}`;
  for (const one of [handle, ...others]) assert.ok((await one.wait()).stdout === expected);
});

// Regression (e2b-dev/infra#3292, e2b-dev/E2B#1352, #1587).
check('stalled_reader_does_not_delay_others', async (t) => {
  const stalled = await t.stream('Start', t.start('/bin/sh', ['-c', `head -n 1; ${printNumbers(30_000_000)}; echo; echo all`]));
  const { value } = await stalled.envelopes.next();
  const { pid } = JSON.parse(value.payload).event.start;
  t.pids.add(pid);
  stalled.response.pause();
  const sandbox = await t.sandbox();
  const reader = await sandbox.commands.connect(pid, { timeoutMs: 0 });
  await sandbox.commands.sendStdin(pid, 'go\n');
  // Other clients are served while the reader is stalled.
  for (let round = 0; round < 10; round += 1) {
    assert.equal((await withTimeout(TIMEOUT_MS, 'another command', t.run('echo on'))).stdout, 'on\n');
  }
  const { stdout } = await reader.wait();
  assert.ok(stdout === `go\n${numbers(30_000_000)}\nall\n`, `${stdout.length} bytes`);
}, { seconds: 120 });

// The output that it did not read was overwritten.
check('stalled_reader_receives_a_data_loss_error', async (shared) => {
  const t = await withoutHistory(shared, Context);
  const stalled = await t.stream('Start', t.start('/bin/sh', ['-c', `head -n 1; ${printNumbers(60_000_000)}; echo; echo all`]));
  const { pid } = JSON.parse((await stalled.envelopes.next()).value.payload).event.start;
  t.pids.add(pid);
  stalled.response.pause();
  await (await t.sandbox()).commands.sendStdin(pid, 'go\n');
  // The program waits for its reader for a while, and then has much to print.
  const { outcome } = await t.native('POST', `/v1/processes/${t.nativeId(pid)}/wait`, { timeoutMs: 100_000 });
  assert.equal(outcome, 'exited');
  stalled.response.resume();
  let last;
  for await (const { flags, payload } of stalled.envelopes) if (flags === 2) last = JSON.parse(payload);
  assert.equal(last.error.code, 'data_loss');
  assert.match(last.error.message, /bytes \d+ to \d+ are gone/);
}, { seconds: 120 });

check('tags_may_repeat_and_the_newest_running_process_is_found', async (t) => {
  const open = async (tag, line = 'head -n 1; echo $0') => {
    const stream = await t.stream('Start', t.start('/bin/sh', ['-c', line, tag], { tag }));
    const { pid } = JSON.parse((await stream.envelopes.next()).value.payload).event.start;
    t.pids.add(pid);
    return pid;
  };
  const other = await open('other-tag');
  const older = await open('twin-tag');
  const newer = await open('twin-tag');
  const listed = (await t.call('List', {})).json.processes.filter(({ tag }) => tag === 'twin-tag');
  assert.deepEqual(listed.map(({ pid }) => pid).sort(), [older, newer].sort());
  // The original stops searching at the first process with another tag.
  const send = (tag) => t.call('SendInput', { process: { tag }, input: { stdin: Buffer.from('x\n').toString('base64') } });
  assert.equal((await send('twin-tag')).status, 200);
  await t.waitForExit(newer);
  assert.equal((await send('twin-tag')).status, 200, 'the remaining process');
  await t.waitForExit(older);
  assert.equal((await t.info(other)).status, 'running');
  const { events } = await t.collectStream('Connect', { process: { tag: 'twin-tag' } });
  assert.equal(events[0].start.pid, newer, 'the most recently exited process');
  await eventually('not in the list', async () => !(await t.call('List', {})).json.processes?.some(({ tag }) => tag === 'twin-tag'));
});
