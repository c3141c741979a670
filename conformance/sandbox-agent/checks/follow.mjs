// followProcessLogs. How much it can carry is in volume.mjs.

import assert from 'node:assert/strict';
import { PATIENCE_MS, numbers } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { decodeEntry, inBatches, readEvents, sameBytes, within } from '../support.mjs';

/** A `cat` that has already said something. */
async function catSaying(t, text) {
  const { id } = await t.start({ command: 'cat' });
  await say(t, id, text);
  await t.until('the text is in the log', async () => (await t.logBytes(id)).toString() === text);
  return id;
}

const say = (t, id, data) => t.agent.sendProcessInput(id, { data, encoding: 'utf8' });

check('follow_replays_and_goes_on', async (t) => {
  const id = await catSaying(t, 'before ');
  const { bytes, entries, close, closed } = await t.follow(id);
  await bytes.untilText('before ');
  await say(t, id, 'after');
  await bytes.untilText('before after');
  assert.equal(bytes.text(), 'before after');
  assert.deepEqual(entries.map(({ sequence, stream }) => [sequence, stream]), [[1, 'stdout'], [2, 'stdout']]);
  close();
  await within(PATIENCE_MS, 'closed after close()', closed);
});

check('follow_resumes_after_a_sequence', async (t) => {
  const id = await catSaying(t, 'first ');
  const one = await t.follow(id);
  await one.bytes.untilText('first ');
  one.close();
  await one.closed;
  await say(t, id, 'missed ');
  const two = await t.follow(id, { since: one.entries.at(-1).sequence });
  await say(t, id, 'live');
  await two.bytes.untilText('live');
  assert.equal(two.bytes.text(), 'missed live');
});

check('follow_from_now_on', async (t) => {
  const id = await catSaying(t, 'history');
  const { bytes } = await t.follow(id, { tail: 0 });
  await say(t, id, 'news');
  await bytes.untilText('news');
  assert.equal(bytes.text(), 'news');
});

check('follow_one_stream', async (t) => {
  const { id } = await t.startShell('while read line; do echo "out $line"; echo "err $line" >&2; done');
  const { bytes } = await t.follow(id, { stream: 'stderr' });
  await say(t, id, '1\n2\n');
  await bytes.untilText('err 2\n');
  assert.equal(bytes.text(), 'err 1\nerr 2\n');
});

check('follow_by_two', async (t) => {
  const id = await catSaying(t, 'x');
  const followers = [await t.follow(id), await t.follow(id)];
  for (const word of ['a', 'b', 'c']) {
    await say(t, id, word);
    await Promise.all(followers.map(({ bytes }) => bytes.untilText(word)));
  }
  for (const { bytes } of followers) assert.equal(bytes.text(), 'xabc');
  assert.deepEqual(followers[0].entries, followers[1].entries);
});

check('follow_on_the_wire', async (t) => {
  const id = await catSaying(t, 'hello');
  const answer = await t.raw('GET', `/v1/processes/${id}/logs`, { query: { follow: 'true' } });
  assert.equal(answer.headers.get('content-type'), 'text/event-stream');
  assert.match(answer.headers.get('cache-control'), /no-cache/);
  const events = readEvents(answer);
  const { value: event } = await events.next();
  assert.deepEqual([event.event, event.id], ['log', '1']);
  const entry = JSON.parse(event.data);
  assert.deepEqual([entry.sequence, entry.stream, decodeEntry(entry).toString()], [1, 'stdout', 'hello']);
});

check('follow_resumes_by_last_event_id', async (t) => {
  const id = await catSaying(t, 'one');
  await say(t, id, 'two');
  const answer = await t.raw('GET', `/v1/processes/${id}/logs`, {
    query: { follow: 'true' }, headers: { 'last-event-id': '1' },
  });
  const { value: event } = await readEvents(answer).next();
  assert.equal(event.id, '2');
  assert.equal(decodeEntry(JSON.parse(event.data)).toString(), 'two');
});

check('follow_is_kept_alive', async (t) => {
  // Proxies cut silent connections; a comment has to come every 15 s.
  const id = (await t.start({ command: 'sleep', args: ['300'] })).id;
  const answer = await t.raw('GET', `/v1/processes/${id}/logs`, { query: { follow: 'true' } });
  const { value } = await answer.body.getReader().read();
  assert.match(Buffer.from(value).toString(), /^:/);
});

check('follow_stays_open_after_the_exit_until_deleted', async (t) => {
  const { id } = await t.startShell('echo last words');
  await t.exited(id);
  const { bytes, closed } = await t.follow(id);
  await bytes.untilText('last words\n');
  let over = false;
  closed.finally(() => { over = true; });
  // That something does not happen can only be seen by giving it time to happen.
  await assert.rejects(within(1_000, 'closed', closed), /not within/);
  assert.equal(over, false);
  await t.agent.deleteProcess(id);
  await within(PATIENCE_MS, 'closed after the delete', closed);
  assert.equal(bytes.text(), 'last words\n');
});

check('follow_ends_at_the_exit_if_asked', async (t) => {
  // The SDK passes query keys on that it does not know.
  const { id } = await t.startShell('read line; echo "got $line"; sleep 0.1; echo end');
  const early = await t.follow(id, { end: 'exit' });
  await say(t, id, 'it\n');
  await within(PATIENCE_MS, 'closed after the exit', early.closed);
  assert.equal(early.bytes.text(), 'got it\nend\n');
  const late = await t.follow(id, { end: 'exit' });
  await within(PATIENCE_MS, 'closed after the replay', late.closed);
  assert.equal(late.bytes.text(), 'got it\nend\n');
});

check('follow_has_no_gap_between_replay_and_live', async (t) => {
  // Followers arrive while the program talks. It stops short of what the log can keep, so each one gets all of it,
  // and of what the SDK can parse a hundred times over: it takes some microseconds for each entry.
  const { id } = await t.startShell(`exec 2>/dev/null; trap "exit 0" TERM; n=0
    while [ $n -lt 40000 ]; do n=$((n + 1)); echo "$n"; [ $((n % 100)) -gt 0 ] || sleep 0.01; done
    while :; do sleep 0.05; done`);
  const followers = await inBatches(Array.from({ length: 100 }), 4, () => t.follow(id));
  assert.equal((await t.agent.stopProcess(id, { waitMs: PATIENCE_MS })).status, 'exited');
  const whole = await t.logBytes(id);
  sameBytes(whole, numbers(whole.length), 'logs');
  for (const { bytes, entries } of followers) {
    await bytes.untilLength(whole.length).catch(() => {});
    sameBytes(bytes.buffer(), whole, 'follow');
    entries.forEach(({ sequence }, i) => assert.equal(sequence, i + 1));
  }
});
