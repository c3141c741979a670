// Streamed commands.

import assert from 'node:assert/strict';
import { TIMEOUT_MS, eventually, uniqueMarker, numbers, printNumbers, expectRejection, withTimeout } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { Gate, retryWithLongerLimits } from '../../_shared/gate.mjs';
import { checkConcurrently } from '../concurrent.mjs';
import { STATELESS, parseSSEStream, textOf } from '../support.mjs';

const sessionIds = (t) => [STATELESS, t.session()];

check('stream_sends_start_output_and_complete', async (t) => {
  for (const sessionId of sessionIds(t)) {
    const line = 'echo out; echo err >&2; (exit 4)';
    const events = await t.events(t.client().commands.executeStream(line, sessionId));
    assert.deepEqual([events[0].type, events[0].command], ['start', line]);
    assert.equal(textOf(events), 'out\n');
    assert.equal(textOf(events, 'stderr'), 'err\n');
    assert.deepEqual([events.at(-1).type, events.at(-1).exitCode], ['complete', 4]);
    assert.ok(events.every(({ timestamp }) => !Number.isNaN(Date.parse(timestamp))));
  }
});

check('stream_sends_output_while_the_command_runs', async (t) => {
  for (const sessionId of sessionIds(t)) {
    const gate = new Gate(t.cleanUpSteps);
    const stream = await t.client().commands.executeStream(`echo first; ${gate.waitCommand}; echo second`, sessionId);
    const seen = [];
    for await (const { type, data } of parseSSEStream(stream)) {
      if (type !== 'stdout') continue;
      seen.push(data);
      // The command continues only after this event.
      gate.release();
    }
    assert.deepEqual(seen, ['first\n', 'second\n']);
  }
});

// Regression (cloudflare/sandbox-sdk#873): `complete` with exit code 0 while the command still runs.
check('stream_completes_when_the_command_exits', async (t) => {
  const started = Date.now();
  const events = await t.events(t.client().commands.executeStream('sleep 1; exit 9', STATELESS));
  assert.ok(Date.now() - started >= 950);
  assert.equal(events.filter(({ type }) => type === 'complete').length, 1);
  assert.equal(events.at(-1).exitCode, 9);
});

check('stream_reports_the_exit_code_of_a_shell_that_exits', async (t) => {
  const id = t.session();
  const events = await t.events(t.client().commands.executeStream('echo bye; exit 5', id));
  assert.deepEqual([textOf(events), events.at(-1).exitCode], ['bye\n', 5]);
  assert.equal((await t.client().commands.execute('echo on', id)).stdout, 'on\n');
});

check('stream_time_limit_is_enforced', async (t) => {
  const limited = (sessionId) => retryWithLongerLimits(
    (timeoutMs) => t.events(t.client().commands.executeStream('echo a; sleep 300', sessionId, { timeoutMs })),
    (events) => textOf(events) !== '',
  );
  const [ms, alone] = await limited(STATELESS);
  assert.deepEqual([textOf(alone), alone.at(-1).type, alone.at(-1).exitCode], ['a\n', 'complete', 124]);
  assert.match(textOf(alone, 'stderr'), new RegExp(`timed out after ${ms}ms`));
  const [sessionMs, inSession] = await limited(t.session());
  assert.deepEqual([textOf(inSession), inSession.at(-1).type], ['a\n', 'error']);
  assert.match(inSession.at(-1).error, new RegExp(`timeout after ${sessionMs}ms`));
});

checkConcurrently('stream_cancelled_leaves_the_command_running', async (t) => {
  for (const sessionId of sessionIds(t)) {
    const name = uniqueMarker();
    const file = `/tmp/${name}`;
    const stream = await t.client().commands.executeStream(`echo up; sleep 1.5; echo ${name} > ${file}.new; mv ${file}.new ${file}; exec sleep 0.1`, sessionId);
    const reader = stream.getReader();
    await reader.read();
    await reader.cancel();
    const read = () => t.native('POST', '/v1/processes/run', { command: `cat ${file} 2>/dev/null && rm -f ${file}`, shell: true });
    await eventually('the file that it writes afterwards', async () => (await read()).stdout === `${name}\n`);
  }
});

check('stream_of_20_megabytes_is_exact', async (t) => {
  const length = 20_000_000;
  const expected = numbers(length).toString();
  for (const sessionId of sessionIds(t)) {
    const events = await t.events(t.client().commands.executeStream(printNumbers(length), sessionId));
    assert.ok(textOf(events) === expected, `${textOf(events).length} of ${sessionId}`);
    assert.equal(events.at(-1).exitCode, 0);
  }
});

check('stream_joins_characters_split_over_writes', async (t) => {
  const line = String.raw`printf '\xe2'; sleep 0.2; printf '\x82'; sleep 0.2; printf '\xacA'; sleep 0.2; printf '\xf0\x9f'; printf 'x\xc3'`;
  for (const sessionId of sessionIds(t)) {
    const events = await t.events(t.client().commands.executeStream(line, sessionId));
    assert.equal(textOf(events), '\u20acA\ufffdx\ufffd');
  }
});

check('stream_keeps_the_order_of_stdout_and_stderr', async (t) => {
  const gate = new Gate(t.cleanUpSteps);
  const line = `for i in 1 2 3 4 5; do echo o$i; ${gate.waitCommand}; echo e$i >&2; ${gate.waitCommand}; done`;
  const events = t.events(t.client().commands.executeStream(line, STATELESS));
  // Two pipes have a defined order only if each word is written after the previous one was recorded.
  const recordedBytes = async () => (await t.native('GET', '/v1/processes?all=true&status=running')).processes.find(({ args }) => args?.[1] === line)?.outputEnd;
  for (let words = 1; words <= 10; words += 1) {
    await eventually(`${words} words`, async () => (await recordedBytes()) === words * 'o1\n'.length);
    gate.release();
  }
  const output = (await events).filter(({ data }) => data).map(({ data }) => data.trim()).join(' ');
  assert.equal(output, 'o1 e1 o2 e2 o3 e3 o4 e4 o5 e5');
});

check('stream_refuses_invalid_requests', async (t) => {
  await expectRejection(t.client().commands.executeStream('', STATELESS), 'CommandError');
  await expectRejection(t.client().commands.executeStream('true', STATELESS, { cwd: '/no/such' }), 'CommandError', /does not exist/);
});

check('stream_of_a_queued_command_opens_at_once', async (t) => {
  const id = t.session();
  const gate = new Gate(t.cleanUpSteps);
  const first = t.client().commands.execute(gate.waitCommand, id);
  await gate.waitForArrivals();
  const stream = await withTimeout(TIMEOUT_MS, 'the start', t.client().commands.executeStream('echo mine', id));
  gate.release();
  assert.equal(textOf(await t.events(stream)), 'mine\n');
  await first;
});
