// Commands whose output is read as it comes.

import assert from 'node:assert/strict';
import { eventually, mark, numbers, printNumbers, refused, within } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
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
    const begun = Date.now();
    const stream = await t.client().commands.executeStream('echo first; sleep 1.2; echo second', sessionId);
    const seen = [];
    for await (const event of parseSSEStream(stream)) seen.push([event.type, Date.now() - begun]);
    const [first, second] = seen.filter(([type]) => type === 'stdout');
    assert.ok(first[1] < 1_000 && second[1] >= 1_000, JSON.stringify(seen));
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
  const alone = await t.events(t.client().commands.executeStream('echo a; sleep 300', STATELESS, { timeoutMs: 400 }));
  assert.deepEqual([textOf(alone), alone.at(-1).type, alone.at(-1).exitCode], ['a\n', 'complete', 124]);
  assert.match(textOf(alone, 'stderr'), /timed out after 400ms/);
  const inSession = await t.events(t.client().commands.executeStream('echo a; sleep 300', t.session(), { timeoutMs: 400 }));
  assert.equal(inSession.at(-1).type, 'error');
  assert.match(inSession.at(-1).error, /timeout after 400ms/);
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
  const line = 'for i in 1 2 3 4 5; do echo o$i; sleep 0.05; echo e$i >&2; sleep 0.05; done';
  const events = await t.events(t.client().commands.executeStream(line, STATELESS));
  const said = events.filter(({ data }) => data).map(({ data }) => data.trim()).join(' ');
  assert.equal(said, 'o1 e1 o2 e2 o3 e3 o4 e4 o5 e5');
});

check('stream_refusals_come_as_errors', async (t) => {
  await refused(t.client().commands.executeStream('', STATELESS), 'CommandError');
  await refused(t.client().commands.executeStream('true', STATELESS, { cwd: '/no/such' }), 'CommandError', /does not exist/);
});

check('stream_of_a_queued_command_begins_at_once', async (t) => {
  const id = t.session();
  const first = t.client().commands.execute('sleep 1', id);
  await eventually('it runs', async () => (await t.native('GET', `/v1/sessions/${id}`).catch(() => ({}))).running);
  const stream = await within(800, 'the start', t.client().commands.executeStream('echo mine', id));
  assert.equal(textOf(await t.events(stream)), 'mine\n');
  await first;
});
