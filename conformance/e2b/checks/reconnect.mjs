// Disconnecting and reconnecting.

import assert from 'node:assert/strict';
import { eventually, expectRejection } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { withoutHistory } from '../../_shared/server.mjs';
import { Context, data } from '../support.mjs';

// Prints as many lines as each line of input says, so that a check knows when no output is in flight.
const PRINT_ON_INPUT = 'n=0; while read count; do i=0; while [ $i -lt $count ]; do echo line $n; n=$((n+1)); i=$((i+1)); done; done';
const lines = (count) => [...Array(count).keys()].map((n) => `line ${n}\n`).join('');

// Regression (e2b-dev/infra#2639).
check('reconnect_receives_exactly_the_missed_output', async (t) => {
  const handle = await t.background('echo before; head -n 1; seq 1 5000; echo after; sleep 300', { stdin: true });
  await eventually('before', () => handle.stdout === 'before\n');
  await handle.disconnect();
  const sandbox = await t.sandbox();
  await sandbox.commands.sendStdin(handle.pid, 'go\n');
  await t.waitForOutput(handle.pid, 'after');
  const again = await sandbox.commands.connect(handle.pid, { timeoutMs: 0 });
  const missed = `go\n${[...Array(5000).keys()].map((n) => `${n + 1}\n`).join('')}after\n`;
  await eventually('the missed output', () => again.stdout.length >= missed.length);
  assert.equal(again.stdout, missed);
});

check('reconnect_many_times_loses_and_repeats_nothing', async (t) => {
  const handle = await t.background(PRINT_ON_INPUT, { stdin: true });
  const sandbox = await t.sandbox();
  let joined = '';
  let current = handle;
  let total = 0;
  for (let round = 1; round <= 10; round += 1) {
    await sandbox.commands.sendStdin(handle.pid, '7\n');
    total += 7;
    await eventually('the printed output', () => joined + current.stdout === lines(total));
    await current.disconnect();
    joined += current.stdout;
    await sandbox.commands.sendStdin(handle.pid, `${round * 100}\n`);
    total += round * 100;
    if (round % 2 === 0) await t.waitForOutput(handle.pid, `line ${total - 1}\n`);
    current = await sandbox.commands.connect(handle.pid, { timeoutMs: 0 });
  }
  await current.closeStdin();
  const { stdout } = await current.wait();
  assert.equal(joined + stdout, lines(total));
});

// The original finds it for 30 s, without its output.
check('connect_after_the_exit_returns_unread_output_and_the_end_event', async (t) => {
  const handle = await t.background('head -n 1; echo late; echo bad >&2; exit 3', { stdin: true });
  await handle.disconnect();
  const sandbox = await t.sandbox();
  await sandbox.commands.sendStdin(handle.pid, 'x\n');
  await t.waitForExit(handle.pid);
  const again = await sandbox.commands.connect(handle.pid);
  const error = await expectRejection(again.wait(), 'CommandExitError', /exit status 3/);
  assert.deepEqual([error.stdout, error.stderr], ['x\nlate\n', 'bad\n']);
  const { events, end } = await t.collectStream('Connect', { process: { pid: handle.pid } });
  assert.deepEqual([events.length, events[1].end.exitCode, end], [2, 3, {}], 'the output was read, so only the end event remains');
});

check('connect_from_an_offset_replays_the_output', async (t) => {
  const handle = await t.background('printf abcdef');
  await handle.wait();
  const from = async (offset) => t.collectStream('Connect', { process: { pid: handle.pid } }, { headers: { 'outlive-from': offset } });
  assert.equal(data((await from('0')).events).toString(), 'abcdef');
  assert.equal(data((await from('4')).events).toString(), 'ef');
  assert.equal((await from('7')).end.error.code, 'invalid_argument');
  assert.equal((await from('x')).end.error.code, 'invalid_argument');
});

check('connect_to_an_unknown_process_is_not_found', async (t) => {
  const sandbox = await t.sandbox();
  await expectRejection(sandbox.commands.connect(999999), 'NotFoundError', /process with pid 999999 not found/);
  const by = async (process) => (await t.collectStream('Connect', { process })).end.error;
  assert.deepEqual(await by({ tag: 'unknown' }), { code: 'not_found', message: 'process with tag unknown not found' });
  assert.equal((await by({})).code, 'invalid_argument');
  assert.equal((await by(undefined)).code, 'invalid_argument');
  assert.equal((await by({ pid: 1, tag: 'both' })).code, 'invalid_argument');
});

check('connect_beside_another_client_receives_new_output_only', async (t) => {
  const handle = await t.background('echo old; head -n 1; echo new', { stdin: true });
  await eventually('old', () => handle.stdout === 'old\n');
  const second = await (await t.sandbox()).commands.connect(handle.pid, { timeoutMs: 0 });
  await handle.sendStdin('in\n');
  assert.equal((await handle.wait()).stdout, 'old\nin\nnew\n');
  assert.equal((await second.wait()).stdout, 'in\nnew\n');
});

// The start of the log advances all the time.
check('connect_to_a_flood_starts_at_the_oldest_kept_byte', async (shared) => {
  const t = await withoutHistory(shared, Context);
  const handle = await t.background('exec yes 0123456789');
  await handle.disconnect();
  await eventually('more output than the log keeps', async () => (await t.info(handle.pid)).outputStart > 0);
  for (let round = 0; round < 5; round += 1) {
    const stream = await t.stream('Connect', { process: { pid: handle.pid } });
    let seen = Buffer.alloc(0);
    for await (const { flags, payload } of stream.envelopes) {
      assert.equal(flags, 0, payload.toString());
      seen = Buffer.concat([seen, data([JSON.parse(payload).event])]);
      if (seen.length > 1_000_000) break;
    }
    stream.abort();
    const whole = Buffer.from('0123456789\n'.repeat(seen.length / 11 + 2));
    const phase = Number(stream.headers['x-outlive-offset']) % 11;
    assert.ok(seen.equals(whole.subarray(phase, phase + seen.length)), 'every byte from the reported offset');
  }
});

check('output_that_was_overwritten_is_reported_in_a_header', async (shared) => {
  const t = await withoutHistory(shared, Context);
  const handle = await t.background('head -n 1; seq 1 4000000; echo all; sleep 300', { stdin: true });
  await handle.disconnect();
  await (await t.sandbox()).commands.sendStdin(handle.pid, 'go\n');
  // The program waits for the disconnected client for a while, so this may take longer than TIMEOUT_MS.
  const { outcome } = await t.native('POST', `/v1/processes/${t.nativeId(handle.pid)}/wait`, { for: 'output', pattern: 'all\\n', timeoutMs: 80_000, from: 0 });
  assert.equal(outcome, 'matched');
  const stream = await t.stream('Connect', { process: { pid: handle.pid } });
  const [from, to] = stream.headers['x-outlive-gap'].split('-').map(Number);
  const oldest = (await t.info(handle.pid)).outputStart;
  assert.ok(from >= 0 && to > from && to <= oldest + 1, `${from}-${to}`);
  assert.equal(Number(stream.headers['x-outlive-offset']), to);
}, { seconds: 120 });
