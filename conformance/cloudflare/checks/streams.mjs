// Commands whose output is read as it comes.

import assert from 'node:assert/strict';
import { PATIENCE_MS, eventually, mark, numbers, printNumbers, refused, within } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { Gate, longEnough } from '../../_shared/pace.mjs';
import { early } from '../early.mjs';
import { STATELESS, parseSSEStream, textOf } from '../support.mjs';

const places = (t) => [STATELESS, t.session()];

check('stream_start_output_complete', async (t) => {
  for (const sessionId of places(t)) {
    const line = 'echo out; echo err >&2; (exit 4)';
    const events = await t.events(t.client().commands.executeStream(line, sessionId));
    assert.deepEqual([events[0].type, events[0].command], ['start', line]);
    assert.equal(textOf(events), 'out\n');
    assert.equal(textOf(events, 'stderr'), 'err\n');
    assert.deepEqual([events.at(-1).type, events.at(-1).exitCode], ['complete', 4]);
    assert.ok(events.every(({ timestamp }) => !Number.isNaN(Date.parse(timestamp))));
  }
});

check('stream_tells_as_it_happens', async (t) => {
  for (const sessionId of places(t)) {
    const gate = new Gate(t.atEnd);
    const stream = await t.client().commands.executeStream(`echo first; ${gate.wait}; echo second`, sessionId);
    const seen = [];
    for await (const { type, data } of parseSSEStream(stream)) {
      if (type !== 'stdout') continue;
      seen.push(data);
      // It goes on only when this was heard.
      gate.letPass();
    }
    assert.deepEqual(seen, ['first\n', 'second\n']);
  }
});

// cloudflare/sandbox-sdk#873: `complete` with exit code 0 while it still ran.
check('stream_completes_when_it_is_over_and_not_before', async (t) => {
  const begun = Date.now();
  const events = await t.events(t.client().commands.executeStream('sleep 1; exit 9', STATELESS));
  assert.ok(Date.now() - begun >= 950);
  assert.equal(events.filter(({ type }) => type === 'complete').length, 1);
  assert.equal(events.at(-1).exitCode, 9);
});

check('stream_of_a_shell_that_ends_tells_its_code', async (t) => {
  const id = t.session();
  const events = await t.events(t.client().commands.executeStream('echo bye; exit 5', id));
  assert.deepEqual([textOf(events), events.at(-1).exitCode], ['bye\n', 5]);
  assert.equal((await t.client().commands.execute('echo on', id)).stdout, 'on\n');
});

check('stream_time_limit_is_kept', async (t) => {
  const limited = (sessionId) => longEnough(
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

early('stream_cancelled_leaves_the_command_running', async (t) => {
  for (const sessionId of places(t)) {
    const name = mark();
    const file = `/tmp/${name}`;
    const stream = await t.client().commands.executeStream(`echo up; sleep 1.5; echo ${name} > ${file}.new; mv ${file}.new ${file}; exec sleep 0.1`, sessionId);
    const reader = stream.getReader();
    await reader.read();
    await reader.cancel();
    const read = () => t.native('POST', '/v1/processes/run', { command: `cat ${file} 2>/dev/null && rm -f ${file}`, shell: true });
    await eventually('what it did afterwards', async () => (await read()).stdout === `${name}\n`);
  }
});

check('stream_20_megabytes_exactly', async (t) => {
  const length = 20_000_000;
  const expected = numbers(length).toString();
  for (const sessionId of places(t)) {
    const events = await t.events(t.client().commands.executeStream(printNumbers(length), sessionId));
    assert.ok(textOf(events) === expected, `${textOf(events).length} of ${sessionId}`);
    assert.equal(events.at(-1).exitCode, 0);
  }
});

check('stream_characters_that_come_in_parts', async (t) => {
  const line = String.raw`printf '\xe2'; sleep 0.2; printf '\x82'; sleep 0.2; printf '\xacA'; sleep 0.2; printf '\xf0\x9f'; printf 'x\xc3'`;
  for (const sessionId of places(t)) {
    const events = await t.events(t.client().commands.executeStream(line, sessionId));
    assert.equal(textOf(events), '\u20acA\ufffdx\ufffd');
  }
});

check('stream_order_of_both_streams_is_kept', async (t) => {
  const gate = new Gate(t.atEnd);
  const line = `for i in 1 2 3 4 5; do echo o$i; ${gate.wait}; echo e$i >&2; ${gate.wait}; done`;
  const events = t.events(t.client().commands.executeStream(line, STATELESS));
  // Two pipes have an order only where each word is written after the one before was taken down.
  const taken = async () => (await t.native('GET', '/v1/processes?all=true&status=running')).processes.find(({ args }) => args?.[1] === line)?.outputEnd;
  for (let words = 1; words <= 10; words += 1) {
    await eventually(`${words} words`, async () => (await taken()) === words * 'o1\n'.length);
    gate.letPass();
  }
  const said = (await events).filter(({ data }) => data).map(({ data }) => data.trim()).join(' ');
  assert.equal(said, 'o1 e1 o2 e2 o3 e3 o4 e4 o5 e5');
});

check('stream_refusals_come_as_errors', async (t) => {
  await refused(t.client().commands.executeStream('', STATELESS), 'CommandError');
  await refused(t.client().commands.executeStream('true', STATELESS, { cwd: '/no/such' }), 'CommandError', /does not exist/);
});

check('stream_of_a_queued_command_begins_at_once', async (t) => {
  const id = t.session();
  const gate = new Gate(t.atEnd);
  const first = t.client().commands.execute(gate.wait, id);
  await gate.arrived();
  const stream = await within(PATIENCE_MS, 'the start', t.client().commands.executeStream('echo mine', id));
  gate.letPass();
  assert.equal(textOf(await t.events(stream)), 'mine\n');
  await first;
});
