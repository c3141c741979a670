// Going away and coming back.

import assert from 'node:assert/strict';
import { check } from '../../_shared/frame.mjs';
import { data, eventually, refused } from '../support.mjs';

const LINES = 400;
const counting = `i=0; while [ $i -lt ${LINES} ]; do echo line $i; i=$((i+1)); sleep 0.005; done`;
const expected = [...Array(LINES).keys()].map((n) => `line ${n}\n`).join('');

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
  const handle = await t.background(counting);
  const sandbox = await t.sandbox();
  let joined = '';
  let current = handle;
  for (let round = 0; round < 8; round += 1) {
    const size = current.stdout.length;
    await eventually('some more', () => current.stdout.length > size + 40);
    await current.disconnect();
    joined += current.stdout;
    current = await sandbox.commands.connect(handle.pid, { timeoutMs: 0 });
  }
  const { stdout } = await current.wait();
  assert.equal(joined + stdout, expected);
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

check('output_that_nobody_could_keep_is_told_by_a_header', async (t) => {
  const handle = await t.background('sleep 0.5; seq 1 4000000; echo all; sleep 300');
  await handle.disconnect();
  await t.untilPrinted(handle.pid, 'all\\n');
  const stream = await t.stream('Connect', { process: { pid: handle.pid } });
  const [from, to] = stream.headers['x-outlive-gap'].split('-').map(Number);
  const oldest = (await t.info(handle.pid)).outputStart;
  assert.ok(from >= 0 && to > from && to <= oldest + 1, `${from}-${to}`);
  assert.equal(Number(stream.headers['x-outlive-offset']), to);
}, { seconds: 90 });
