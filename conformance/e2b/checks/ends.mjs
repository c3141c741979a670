// How commands end.

import assert from 'node:assert/strict';
import { PATIENCE_MS, eventually, numbers, printNumbers, refused, within } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { Gate } from '../../_shared/pace.mjs';
import { data } from '../support.mjs';

check('end_exit_code_is_told', async (t) => {
  for (const code of [1, 2, 126, 255]) {
    const error = await refused(t.run(`echo out; echo err >&2; exit ${code}`), 'CommandExitError', new RegExp(`exit status ${code}`));
    assert.deepEqual([error.exitCode, error.stdout, error.stderr], [code, 'out\n', 'err\n']);
  }
  const { events, end } = await t.whole('Start', t.start('/bin/sh', ['-c', 'exit 7']));
  assert.deepEqual(events.at(-1).end, { exitCode: 7, exited: true, status: 'exit status 7', error: 'exit status 7' });
  assert.deepEqual(end, {});
});

check('end_of_success_leaves_out_what_is_zero', async (t) => {
  const { events } = await t.whole('Start', t.start('/bin/true'));
  assert.deepEqual(events.at(-1).end, { exited: true, status: 'exit status 0' });
});

check('end_by_signal_says_which', async (t) => {
  const words = { KILL: 'killed', TERM: 'terminated', INT: 'interrupt', HUP: 'hangup', SEGV: 'segmentation fault', ABRT: 'aborted' };
  for (const [name, word] of Object.entries(words)) {
    const { events } = await t.whole('Start', t.start('/bin/sh', ['-c', `ulimit -c 0; kill -${name} $$`]));
    const said = `signal: ${word}`;
    assert.deepEqual(events.at(-1).end, { exitCode: -1, status: said, error: said });
  }
  const error = await refused(t.run('kill -9 $$'), 'CommandExitError', /signal: killed/);
  assert.equal(error.exitCode, -1);
});

// e2b-dev/E2B#170
check('end_comes_after_the_last_byte', async (t) => {
  const expected = numbers(300_000).toString();
  for (let round = 0; round < 5; round += 1) {
    const { stdout } = await t.run(printNumbers(300_000));
    assert.ok(stdout === expected, `${stdout.length} bytes`);
  }
});

check('output_of_20_mb_is_exact', async (t) => {
  const { stdout } = await t.run(printNumbers(20_000_000));
  assert.equal(stdout.length, 20_000_000);
  assert.ok(stdout === numbers(20_000_000).toString('latin1'));
});

check('output_of_all_bytes_is_exact', async (t) => {
  const line = String.raw`i=0; while [ $i -lt 256 ]; do printf "\\$(printf %o $i)"; i=$((i+1)); done`;
  const { events } = await t.whole('Start', t.start('/bin/sh', ['-c', line]));
  assert.deepEqual([...data(events)], [...Array(256).keys()]);
});

check('output_that_is_no_utf8_is_replaced_by_the_sdk_only', async (t) => {
  assert.equal((await t.run(String.raw`printf 'a\377b\300'`)).stdout, 'a�b�');
});

check('output_characters_split_across_chunks_come_whole', async (t) => {
  const result = await t.run(String.raw`printf '\360\237'; sleep 0.2; printf '\230\200'; printf '\303' >&2; sleep 0.2; printf '\244' >&2`);
  assert.deepEqual([result.stdout, result.stderr], ['😀', 'ä']);
});

// Two readers there; one log here.
check('output_of_both_streams_keeps_its_order', async (t) => {
  const gate = new Gate(t.atEnd);
  const whole = t.whole('Start', t.start('/bin/sh', ['-c', `for i in 1 2 3 4 5; do echo $i; ${gate.wait}; echo $i >&2; ${gate.wait}; done`]));
  // Two pipes have an order only where each word is written after the one before was taken down.
  const taken = async () => (await t.native('GET', '/v1/processes')).processes.find((process) => JSON.stringify(process).includes(gate.fifo))?.outputEnd;
  for (let words = 1; words <= 10; words += 1) {
    await eventually(`${words} words`, async () => (await taken()) === words * '1\n'.length);
    gate.letPass();
  }
  const { events } = await whole;
  const said = events.filter((event) => event.data).map(({ data }) => (data.stdout ? 'out' : 'err') + Buffer.from(data.stdout ?? data.stderr, 'base64'));
  assert.deepEqual(said, [1, 2, 3, 4, 5].flatMap((n) => [`out${n}\n`, `err${n}\n`]));
});

// There the call stays open until the child has let go of the pipe, or the time is over.
check('end_does_not_wait_for_a_child_that_holds_the_pipe', async (t) => {
  const result = await within(PATIENCE_MS, 'the end', t.run('sleep 300 & echo $!'));
  t.pids.add(Number(result.stdout));
  assert.equal(result.exitCode, 0);
  await t.native('POST', '/v1/processes/run', { command: 'kill', args: [result.stdout.trim()] });
});
