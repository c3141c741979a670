// followProcessLogs. Large volumes are in volume.mjs.

import assert from 'node:assert/strict';
import { TIMEOUT_MS, numbers, withTimeout } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { decodeEntry, inBatches, readEvents, assertSameBytes } from '../support.mjs';

/** A `cat` whose log has one entry. */
async function catSaying(t, text) {
  const { id } = await t.start({ command: 'cat' });
  await say(t, id, text);
  await t.waitFor('the text is in the log', async () => (await t.logBytes(id)).toString() === text);
  return id;
}

const say = (t, id, data) => t.agent.sendProcessInput(id, { data, encoding: 'utf8' });

check('follow_replays_and_continues', async (t) => {
  const id = await catSaying(t, 'before ');
  const { bytes, entries, close, closed } = await t.follow(id);
  await bytes.waitForText('before ');
  await say(t, id, 'after');
  await bytes.waitForText('before after');
  assert.equal(bytes.text(), 'before after');
  assert.deepEqual(entries.map(({ sequence, stream }) => [sequence, stream]), [[1, 'stdout'], [2, 'stdout']]);
  close();
  await withTimeout(TIMEOUT_MS, 'closed after close()', closed);
});

check('follow_resumes_after_a_sequence', async (t) => {
  const id = await catSaying(t, 'first ');
  const one = await t.follow(id);
  await one.bytes.waitForText('first ');
  one.close();
  await one.closed;
  await say(t, id, 'missed ');
  const two = await t.follow(id, { since: one.entries.at(-1).sequence });
  await say(t, id, 'live');
  await two.bytes.waitForText('live');
  assert.equal(two.bytes.text(), 'missed live');
});

check('follow_can_start_with_new_output', async (t) => {
  const id = await catSaying(t, 'history');
  const { bytes } = await t.follow(id, { tail: 0 });
  await say(t, id, 'news');
  await bytes.waitForText('news');
  assert.equal(bytes.text(), 'news');
});

check('follow_can_select_one_stream', async (t) => {
  const { id } = await t.startShell('while read line; do echo "out $line"; echo "err $line" >&2; done');
  const { bytes } = await t.follow(id, { stream: 'stderr' });
  await say(t, id, '1\n2\n');
  await bytes.waitForText('err 2\n');
  assert.equal(bytes.text(), 'err 1\nerr 2\n');
});

check('follow_serves_two_clients', async (t) => {
  const id = await catSaying(t, 'x');
  const followers = [await t.follow(id), await t.follow(id)];
  for (const word of ['a', 'b', 'c']) {
    await say(t, id, word);
    await Promise.all(followers.map(({ bytes }) => bytes.waitForText(word)));
  }
  for (const { bytes } of followers) assert.equal(bytes.text(), 'xabc');
  assert.deepEqual(followers[0].entries, followers[1].entries);
});

check('follow_has_the_expected_wire_format', async (t) => {
  const id = await catSaying(t, 'hello');
  const reply = await t.raw('GET', `/v1/processes/${id}/logs`, { query: { follow: 'true' } });
  assert.equal(reply.headers.get('content-type'), 'text/event-stream');
  assert.match(reply.headers.get('cache-control'), /no-cache/);
  const events = readEvents(reply);
  const { value: event } = await events.next();
  assert.deepEqual([event.event, event.id], ['log', '1']);
  const entry = JSON.parse(event.data);
  assert.deepEqual([entry.sequence, entry.stream, decodeEntry(entry).toString()], [1, 'stdout', 'hello']);
});

check('follow_resumes_by_last_event_id', async (t) => {
  const id = await catSaying(t, 'one');
  await say(t, id, 'two');
  const reply = await t.raw('GET', `/v1/processes/${id}/logs`, {
    query: { follow: 'true' }, headers: { 'last-event-id': '1' },
  });
  const { value: event } = await readEvents(reply).next();
  assert.equal(event.id, '2');
  assert.equal(decodeEntry(JSON.parse(event.data)).toString(), 'two');
});

check('follow_sends_keepalives', async (t) => {
  // Proxies close silent connections, so a comment must come every 15 s.
  const id = (await t.start({ command: 'sleep', args: ['300'] })).id;
  const reply = await t.raw('GET', `/v1/processes/${id}/logs`, { query: { follow: 'true' } });
  const { value } = await reply.body.getReader().read();
  assert.match(Buffer.from(value).toString(), /^:/);
});

check('follow_stays_open_after_the_exit_until_deleted', async (t) => {
  const { id } = await t.startShell('echo last words');
  await t.waitForExit(id);
  const { bytes, closed } = await t.follow(id);
  await bytes.waitForText('last words\n');
  let hasClosed = false;
  closed.finally(() => { hasClosed = true; });
  // That the stream stays open can only be checked by waiting.
  await assert.rejects(withTimeout(1_000, 'closed', closed), /not within/);
  assert.equal(hasClosed, false);
  await t.agent.deleteProcess(id);
  await withTimeout(TIMEOUT_MS, 'closed after the delete', closed);
  assert.equal(bytes.text(), 'last words\n');
});

check('follow_ends_at_the_exit_on_request', async (t) => {
  // The SDK passes unknown query keys on.
  const { id } = await t.startShell('read line; echo "got $line"; sleep 0.1; echo end');
  const early = await t.follow(id, { end: 'exit' });
  await say(t, id, 'it\n');
  await withTimeout(TIMEOUT_MS, 'closed after the exit', early.closed);
  assert.equal(early.bytes.text(), 'got it\nend\n');
  const late = await t.follow(id, { end: 'exit' });
  await withTimeout(TIMEOUT_MS, 'closed after the replay', late.closed);
  assert.equal(late.bytes.text(), 'got it\nend\n');
});

check('follow_has_no_gap_between_replay_and_live', async (t) => {
  // Followers connect while the program prints. Its output fits into the log, so each follower receives all of it.
  // It is also small enough for the SDK to parse a hundred times at some microseconds per entry.
  const { id } = await t.startShell(`exec 2>/dev/null; trap "exit 0" TERM; n=0
    while [ $n -lt 40000 ]; do n=$((n + 1)); echo "$n"; [ $((n % 100)) -gt 0 ] || sleep 0.01; done
    while :; do sleep 0.05; done`);
  const followers = await inBatches(Array.from({ length: 100 }), 4, () => t.follow(id));
  assert.equal((await t.agent.stopProcess(id, { waitMs: TIMEOUT_MS })).status, 'exited');
  const whole = await t.logBytes(id);
  assertSameBytes(whole, numbers(whole.length), 'logs');
  for (const { bytes, entries } of followers) {
    await bytes.waitForLength(whole.length).catch(() => {});
    assertSameBytes(bytes.buffer(), whole, 'follow');
    entries.forEach(({ sequence }, i) => assert.equal(sequence, i + 1));
  }
});
