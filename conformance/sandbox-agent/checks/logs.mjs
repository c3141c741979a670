// getProcessLogs.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { numbers, printNumbers } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { Context, decodeEntry, MB, expectProblem, assertSameBytes } from '../support.mjs';
import { startServer } from '../../_shared/server.mjs';

/** A `cat` with one log entry per text: each text is sent after the previous one was printed. */
async function entriesOf(t, texts) {
  const { id } = await t.start({ command: 'cat' });
  const { bytes, entries } = await t.follow(id);
  let length = 0;
  for (const text of texts) {
    const data = Buffer.from(text);
    await t.agent.sendProcessInput(id, { data: data.toString('base64') });
    await bytes.waitForLength((length += data.length));
  }
  assert.equal(entries.length, texts.length);
  return { id, sequences: entries.map(({ sequence }) => sequence) };
}

const textsOf = ({ entries }) => entries.map((entry) => decodeEntry(entry).toString());

check('logs_entries_have_the_original_shape', async (t) => {
  const before = Date.now();
  const { id } = await t.startShell('echo hello');
  await t.waitForExit(id);
  const reply = await t.agent.getProcessLogs(id);
  assert.deepEqual([reply.processId, reply.stream, reply.entries.length], [id, 'combined', 1]);
  const [{ sequence, stream, timestampMs, data, encoding }] = reply.entries;
  assert.deepEqual([sequence, stream, encoding, data], [1, 'stdout', 'base64', 'aGVsbG8K']);
  assert.ok(timestampMs >= before - 1_000 && timestampMs <= Date.now() + 1_000, `timestampMs ${timestampMs}`);
});

check('logs_can_be_filtered_by_stream', async (t) => {
  const { id } = await t.startShell('echo out; echo err >&2');
  await t.waitForExit(id);
  const text = async (query) => (await t.logBytes(id, query)).toString();
  assert.equal(await text({ stream: 'stdout' }), 'out\n');
  assert.equal(await text({ stream: 'stderr' }), 'err\n');
  assert.equal(await text({ stream: 'pty' }), '');
  const { entries, stream } = await t.agent.getProcessLogs(id, { stream: 'combined' });
  assert.equal(stream, 'combined');
  assert.deepEqual(entries.map(({ stream: from }) => from).sort(), ['stderr', 'stdout']);
  // Both streams share one sequence.
  assert.deepEqual(entries.map(({ sequence }) => sequence), [1, 2]);
});

check('logs_of_a_terminal_have_one_stream', async (t) => {
  const { id } = await t.startShell('echo hello; read line', { tty: true });
  await t.waitForLog(id, 'hello');
  const { stream, entries } = await t.agent.getProcessLogs(id);
  assert.equal(stream, 'pty');
  assert.deepEqual([...new Set(entries.map(({ stream: from }) => from))], ['pty']);
  assert.equal(Buffer.concat(entries.map(decodeEntry)).toString(), 'hello\r\n');
  assert.deepEqual((await t.agent.getProcessLogs(id, { stream: 'combined' })).entries, []);
});

check('logs_can_be_limited_by_tail_and_since', async (t) => {
  const { id, sequences } = await entriesOf(t, ['one', 'two', 'three', 'four']);
  const ask = async (query) => textsOf(await t.agent.getProcessLogs(id, query));
  assert.deepEqual(await ask({}), ['one', 'two', 'three', 'four']);
  assert.deepEqual(await ask({ tail: 2 }), ['three', 'four']);
  assert.deepEqual(await ask({ tail: 0 }), []);
  assert.deepEqual(await ask({ tail: 99 }), ['one', 'two', 'three', 'four']);
  assert.deepEqual(await ask({ since: sequences[1] }), ['three', 'four']);
  assert.deepEqual(await ask({ since: sequences[3] }), []);
  assert.deepEqual(await ask({ since: 0 }), ['one', 'two', 'three', 'four']);
  assert.deepEqual(await ask({ since: sequences[0], tail: 1 }), ['four']);
});

check('logs_last_event_id_acts_like_since', async (t) => {
  const { id, sequences } = await entriesOf(t, ['one', 'two', 'three']);
  const ask = async (lastEventId, query) => {
    const headers = { 'last-event-id': String(lastEventId) };
    const reply = await t.raw('GET', `/v1/processes/${id}/logs`, { headers, query });
    assert.equal(reply.status, 200);
    return textsOf(await reply.json());
  };
  assert.deepEqual(await ask(sequences[0]), ['two', 'three']);
  assert.deepEqual(await ask(sequences[0], { since: sequences[1] }), ['three'], 'the larger one applies');
  assert.deepEqual(await ask(sequences[1], { since: sequences[0] }), ['three'], 'the larger one applies');
});

check('logs_binary_is_exact', async (t) => {
  const data = Buffer.concat([Buffer.from(Array.from({ length: 256 }, (_, i) => i)), randomBytes(50_000)]);
  const { id } = await t.start({ command: 'cat' });
  const { bytes } = await t.follow(id);
  await t.agent.sendProcessInput(id, { data: data.toString('base64') });
  await bytes.waitForLength(data.length);
  assertSameBytes(bytes.buffer(), data, 'follow');
  assertSameBytes(await t.logBytes(id), data, 'logs');
});

check('logs_split_characters_are_exact', async (t) => {
  const [first, second] = [Buffer.from([0xe2, 0x82]), Buffer.from([0xac])];
  const { id } = await entriesOf(t, [first, second]);
  const { entries } = await t.agent.getProcessLogs(id);
  assert.deepEqual(entries.map(decodeEntry), [first, second]);
  assert.equal((await t.logBytes(id)).toString(), '€');
});

check('logs_keep_the_newest_entries_without_history', async (shared) => {
  const server = await startServer(['--no-token', '--history', 'off']);
  shared.onCleanUp(() => server.stop());
  const t = new Context({ baseUrl: server.url });
  shared.onCleanUp(() => t.cleanUp());
  const budget = 262_144;
  await t.changeLimits({ maxLogBytesPerProcess: budget });
  const { id } = await t.startShell(printNumbers(2 * MB));
  await t.waitForExit(id);
  const { entries } = await t.agent.getProcessLogs(id);
  const kept = Buffer.concat(entries.map(decodeEntry));
  assert.ok(kept.length <= budget, `${kept.length} bytes kept`);
  assert.ok(kept.length >= budget / 2, `only ${kept.length} bytes kept`);
  assertSameBytes(kept, numbers(2 * MB).subarray(-kept.length));
  assert.ok(entries[0].sequence > 1, 'the sequence shows the loss');
  entries.forEach(({ sequence }, i) => assert.equal(sequence, entries[0].sequence + i));
});

check('logs_are_complete_with_history', async (t) => {
  await t.changeLimits({ maxLogBytesPerProcess: 262_144 });
  const { id } = await t.startShell(printNumbers(2 * MB));
  await t.waitForExit(id);
  const { entries } = await t.agent.getProcessLogs(id);
  assertSameBytes(Buffer.concat(entries.map(decodeEntry)), numbers(2 * MB));
  entries.forEach(({ sequence }, i) => assert.equal(sequence, i + 1));
});

check('logs_of_an_unknown_process_are_404', async (t) => {
  await expectProblem(t.agent.getProcessLogs('proc_unknown'), 404, { type: 'not_found' });
  await expectProblem(t.agent.followProcessLogs('proc_unknown', () => {}), 404, { type: 'not_found' });
});
