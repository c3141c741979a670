// Exit codes, signals, and the end of the output.

import assert from 'node:assert/strict';
import { TIMEOUT_MS, eventually, numbers, printNumbers, expectRejection, withTimeout } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { Gate } from '../../_shared/gate.mjs';
import { data } from '../support.mjs';

check('end_event_has_the_exit_code', async (t) => {
  for (const code of [1, 2, 126, 255]) {
    const error = await expectRejection(t.run(`echo out; echo err >&2; exit ${code}`), 'CommandExitError', new RegExp(`exit status ${code}`));
    assert.deepEqual([error.exitCode, error.stdout, error.stderr], [code, 'out\n', 'err\n']);
  }
  const { events, end } = await t.collectStream('Start', t.start('/bin/sh', ['-c', 'exit 7']));
  assert.deepEqual(events.at(-1).end, { exitCode: 7, exited: true, status: 'exit status 7', error: 'exit status 7' });
  assert.deepEqual(end, {});
});

check('end_event_of_success_omits_zero_values', async (t) => {
  const { events } = await t.collectStream('Start', t.start('/bin/true'));
  assert.deepEqual(events.at(-1).end, { exited: true, status: 'exit status 0' });
});

check('end_event_names_the_signal', async (t) => {
  const descriptions = { KILL: 'killed', TERM: 'terminated', INT: 'interrupt', HUP: 'hangup', SEGV: 'segmentation fault', ABRT: 'aborted' };
  for (const [name, description] of Object.entries(descriptions)) {
    const { events } = await t.collectStream('Start', t.start('/bin/sh', ['-c', `ulimit -c 0; kill -${name} $$`]));
    const status = `signal: ${description}`;
    assert.deepEqual(events.at(-1).end, { exitCode: -1, status, error: status });
  }
  const error = await expectRejection(t.run('kill -9 $$'), 'CommandExitError', /signal: killed/);
  assert.equal(error.exitCode, -1);
});

// Regression (e2b-dev/E2B#170).
check('end_event_comes_after_the_last_byte', async (t) => {
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
  const { events } = await t.collectStream('Start', t.start('/bin/sh', ['-c', line]));
  assert.deepEqual([...data(events)], [...Array(256).keys()]);
});

check('output_with_invalid_utf8_is_replaced_by_the_sdk_only', async (t) => {
  assert.equal((await t.run(String.raw`printf 'a\377b\300'`)).stdout, 'a�b�');
});

check('output_characters_split_across_chunks_arrive_whole', async (t) => {
  const result = await t.run(String.raw`printf '\360\237'; sleep 0.2; printf '\230\200'; printf '\303' >&2; sleep 0.2; printf '\244' >&2`);
  assert.deepEqual([result.stdout, result.stderr], ['😀', 'ä']);
});

// The original has one reader per stream; outlive has one log.
check('output_keeps_the_order_of_stdout_and_stderr', async (t) => {
  const gate = new Gate(t.cleanUpSteps);
  const whole = t.collectStream('Start', t.start('/bin/sh', ['-c', `for i in 1 2 3 4 5; do echo $i; ${gate.waitCommand}; echo $i >&2; ${gate.waitCommand}; done`]));
  // Two pipes have a defined order only if each word is written after the previous one was recorded.
  const recordedBytes = async () => (await t.native('GET', '/v1/processes')).processes.find((process) => JSON.stringify(process).includes(gate.fifo))?.outputEnd;
  for (let words = 1; words <= 10; words += 1) {
    await eventually(`${words} words`, async () => (await recordedBytes()) === words * '1\n'.length);
    gate.release();
  }
  const { events } = await whole;
  const output = events.filter((event) => event.data).map(({ data }) => (data.stdout ? 'out' : 'err') + Buffer.from(data.stdout ?? data.stderr, 'base64'));
  assert.deepEqual(output, [1, 2, 3, 4, 5].flatMap((n) => [`out${n}\n`, `err${n}\n`]));
});

// In the original the call stays open until the child closes the pipe or the time limit ends it.
check('end_event_does_not_wait_for_a_child_that_holds_the_pipe', async (t) => {
  const result = await withTimeout(TIMEOUT_MS, 'the end', t.run('sleep 300 & echo $!'));
  t.pids.add(Number(result.stdout));
  assert.equal(result.exitCode, 0);
  await t.native('POST', '/v1/processes/run', { command: 'kill', args: [result.stdout.trim()] });
});
