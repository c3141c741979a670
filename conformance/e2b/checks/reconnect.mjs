// Going away and coming back.

import assert from 'node:assert/strict';
import { eventually, refused } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { data } from '../support.mjs';

// Prints as many lines as it is told to, so that a check knows when there is nothing on its way.
const obedient = 'n=0; while read count; do i=0; while [ $i -lt $count ]; do echo line $n; n=$((n+1)); i=$((i+1)); done; done';
const lines = (count) => [...Array(count).keys()].map((n) => `line ${n}\n`).join('');

// e2b-dev/infra#2639
check('reconnect_gets_exactly_what_was_missed', async (t) => {
  const handle = await t.background('echo before; head -n 1; seq 1 5000; echo after; sleep 300', { stdin: true });
  await eventually('before', () => handle.stdout === 'before\n');
  await handle.disconnect();
  const sandbox = await t.sandbox();
  await sandbox.commands.sendStdin(handle.pid, 'go\n');
  await t.untilPrinted(handle.pid, 'after');
  const again = await sandbox.commands.connect(handle.pid, { timeoutMs: 0 });
  const missed = `go\n${[...Array(5000).keys()].map((n) => `${n + 1}\n`).join('')}after\n`;
  await eventually('what was missed', () => again.stdout.length >= missed.length);
  assert.equal(again.stdout, missed);
});

check('reconnect_many_times_joins_without_loss_or_repeat', async (t) => {
  const handle = await t.background(obedient, { stdin: true });
  const sandbox = await t.sandbox();
  let joined = '';
  let current = handle;
  let total = 0;
  for (let round = 1; round <= 10; round += 1) {
    await sandbox.commands.sendStdin(handle.pid, '7\n');
    total += 7;
    await eventually('what was printed', () => joined + current.stdout === lines(total));
    await current.disconnect();
    joined += current.stdout;
    await sandbox.commands.sendStdin(handle.pid, `${round * 100}\n`);
    total += round * 100;
    if (round % 2 === 0) await t.untilPrinted(handle.pid, `line ${total - 1}\n`);
    current = await sandbox.commands.connect(handle.pid, { timeoutMs: 0 });
  }
  await current.closeStdin();
  const { stdout } = await current.wait();
  assert.equal(joined + stdout, lines(total));
});

// There it can be found for 30 s, without its output.
check('connect_after_the_end_gives_what_was_not_read_and_the_end', async (t) => {
  const handle = await t.background('head -n 1; echo late; echo bad >&2; exit 3', { stdin: true });
  await handle.disconnect();
  const sandbox = await t.sandbox();
  await sandbox.commands.sendStdin(handle.pid, 'x\n');
  await t.untilExited(handle.pid);
  const again = await sandbox.commands.connect(handle.pid);
  const error = await refused(again.wait(), 'CommandExitError', /exit status 3/);
  assert.deepEqual([error.stdout, error.stderr], ['x\nlate\n', 'bad\n']);
  const { events, end } = await t.whole('Connect', { process: { pid: handle.pid } });
  assert.deepEqual([events.length, events[1].end.exitCode, end], [2, 3, {}], 'read, so only the end is left');
});

check('connect_from_an_offset_gives_all_of_it_again', async (t) => {
  const handle = await t.background('printf abcdef');
  await handle.wait();
  const from = async (offset) => t.whole('Connect', { process: { pid: handle.pid } }, { headers: { 'outlive-from': offset } });
  assert.equal(data((await from('0')).events).toString(), 'abcdef');
  assert.equal(data((await from('4')).events).toString(), 'ef');
  assert.equal((await from('7')).end.error.code, 'invalid_argument');
  assert.equal((await from('x')).end.error.code, 'invalid_argument');
});

check('connect_to_nobody_is_not_found', async (t) => {
  const sandbox = await t.sandbox();
  await refused(sandbox.commands.connect(999999), 'NotFoundError', /process with pid 999999 not found/);
  const by = async (process) => (await t.whole('Connect', { process })).end.error;
  assert.deepEqual(await by({ tag: 'nobody' }), { code: 'not_found', message: 'process with tag nobody not found' });
  assert.equal((await by({})).code, 'invalid_argument');
  assert.equal((await by(undefined)).code, 'invalid_argument');
  assert.equal((await by({ pid: 1, tag: 'both' })).code, 'invalid_argument');
});

check('connect_beside_another_gets_what_comes_from_now_on', async (t) => {
  const handle = await t.background('echo old; head -n 1; echo new', { stdin: true });
  await eventually('old', () => handle.stdout === 'old\n');
  const second = await (await t.sandbox()).commands.connect(handle.pid, { timeoutMs: 0 });
  await handle.sendStdin('in\n');
  assert.equal((await handle.wait()).stdout, 'old\nin\nnew\n');
  assert.equal((await second.wait()).stdout, 'in\nnew\n');
});

// What is kept moves on all the time.
check('connect_to_a_flood_begins_at_what_is_kept', async (t) => {
  const handle = await t.background('exec yes 0123456789');
  await handle.disconnect();
  await eventually('more than is kept', async () => (await t.info(handle.pid)).outputStart > 0);
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
    assert.ok(seen.equals(whole.subarray(phase, phase + seen.length)), 'every byte from the offset that was told');
  }
});

check('output_that_nobody_could_keep_is_told_by_a_header', async (t) => {
  const handle = await t.background('head -n 1; seq 1 4000000; echo all; sleep 300', { stdin: true });
  await handle.disconnect();
  await (await t.sandbox()).commands.sendStdin(handle.pid, 'go\n');
  // It waits for a while for who has left, so this takes longer than patience lasts.
  const { outcome } = await t.native('POST', `/v1/processes/${t.nativeId(handle.pid)}/wait`, { for: 'output', pattern: 'all\\n', timeoutMs: 80_000, from: 0 });
  assert.equal(outcome, 'matched');
  const stream = await t.stream('Connect', { process: { pid: handle.pid } });
  const [from, to] = stream.headers['x-outlive-gap'].split('-').map(Number);
  const oldest = (await t.info(handle.pid)).outputStart;
  assert.ok(from >= 0 && to > from && to <= oldest + 1, `${from}-${to}`);
  assert.equal(Number(stream.headers['x-outlive-offset']), to);
}, { seconds: 120 });
