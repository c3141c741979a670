// Deadlines, signs of life, and streams that always end with a word.

import assert from 'node:assert/strict';
import { PATIENCE_MS, eventually, refused, within } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { Gate, longEnough } from '../../_shared/pace.mjs';

/** A command that runs into its time limit, after it was started. */
async function limited(t) {
  const [, handle] = await longEnough((timeoutMs) => t.background('sleep 300', { timeoutMs }).catch(() => undefined), Boolean);
  assert.ok(handle, 'it was started');
  return handle;
}

check('deadline_of_start_is_the_life_of_the_process', async (t) => {
  const handle = await limited(t);
  await refused(handle.wait(), 'TimeoutError', /deadline_exceeded|timed out/);
  await t.untilExited(handle.pid);
  assert.equal((await t.info(handle.pid)).exitReason, 'timedOut');
});

check('deadline_of_start_holds_when_the_client_has_left', async (t) => {
  const handle = await limited(t);
  await handle.disconnect();
  await t.untilExited(handle.pid);
  assert.equal((await t.info(handle.pid)).exitReason, 'timedOut');
});

check('deadline_is_told_in_the_end_envelope', async (t) => {
  const [, { events, end }] = await longEnough(
    (ms) => t.whole('Start', t.start('/bin/sleep', ['300']), { headers: { 'connect-timeout-ms': `${ms}` } }),
    (answer) => answer.events.length > 0,
  );
  assert.equal(end.error.code, 'deadline_exceeded');
  assert.equal(events.length, 1, 'started, and nothing else');
  for (const nonsense of ['x', '-1', '1.5', '12345678901']) {
    const { end: refusal } = await t.whole('Start', t.start('/bin/true'), { headers: { 'connect-timeout-ms': nonsense } });
    assert.equal(refusal.error.code, 'invalid_argument', nonsense);
  }
});

// e2b-dev/E2B#1074
check('deadline_of_connect_ends_only_that_stream', async (t) => {
  const handle = await t.background('sleep 300');
  const connect = { process: { pid: handle.pid } };
  const { end } = await t.whole('Connect', connect, { headers: { 'connect-timeout-ms': '500' } });
  assert.equal(end.error.code, 'deadline_exceeded');
  assert.equal((await t.info(handle.pid)).status, 'running');
  assert.equal((await t.info(handle.pid)).timeoutMs, undefined, 'no limit was asked for');
});

check('keepalive_comes_after_as_much_silence_as_asked_for', async (t) => {
  const gate = new Gate(t.atEnd);
  let silentSince = performance.now();
  const stream = await t.stream('Start', t.start('/bin/sh', ['-c', `${gate.wait}; echo out; sleep 300`]), {
    headers: { 'keepalive-ping-interval': '1' },
  });
  const kinds = [];
  for await (const { payload } of stream.envelopes) {
    const { event } = JSON.parse(payload);
    const [kind] = Object.keys(event);
    if (kind === 'start') t.pids.add(event.start.pid);
    // Of more than one in a row, the first counts.
    if (kind === kinds.at(-1)) continue;
    kinds.push(kind);
    if (kind !== 'keepalive') continue;
    assert.ok(performance.now() - silentSince >= 950, 'not before its time');
    if (kinds.length === 4) break;
    // What it says breaks the silence, and is said after this.
    silentSince = performance.now();
    gate.letPass();
  }
  assert.deepEqual(kinds, ['start', 'keepalive', 'data', 'keepalive']);
});

// There it ends the whole daemon.
check('keepalive_of_zero_harms_nobody', async (t) => {
  const { pid } = await (async () => ({ pid: (await t.native('GET', '/v1/health')).serverPid }))();
  for (const seconds of ['0', '-1', 'x', '', '99999999999999999999']) {
    const { events, end } = await t.whole('Start', t.start('/bin/true'), { headers: { 'keepalive-ping-interval': seconds } });
    assert.ok(events.at(-1).end.exited);
    assert.deepEqual(end, {});
  }
  assert.equal((await t.native('GET', '/v1/health')).serverPid, pid);
});

check('first_event_is_start_and_comes_at_once', async (t) => {
  // It says nothing and does not end: who waits for either never answers.
  const stream = await t.stream('Start', t.start('/bin/sleep', ['300']));
  const { value } = await stream.envelopes.next();
  const { event } = JSON.parse(value.payload);
  t.pids.add(event.start.pid);
  assert.ok(event.start.pid > 1);
  const again = await t.stream('Connect', { process: { pid: event.start.pid } });
  const first = JSON.parse((await again.envelopes.next()).value.payload);
  assert.deepEqual(first, { event: { start: { pid: event.start.pid } } });
});

check('connection_is_good_for_another_call_after_a_stream', async (t) => {
  const sandbox = await t.sandbox();
  for (let round = 0; round < 30; round += 1) {
    assert.equal((await sandbox.commands.run('echo x')).stdout, 'x\n');
    assert.ok(Array.isArray(await sandbox.commands.list()));
  }
});

// e2b-dev/infra#3256
check('start_calls_that_are_broken_off_leave_nothing_stuck', async (t) => {
  for (let round = 0; round < 20; round += 1) {
    const stream = await t.stream('Start', t.start('/bin/sleep', ['300']));
    if (round % 2 === 0) {
      const { value } = await stream.envelopes.next();
      t.pids.add(JSON.parse(value.payload).event.start.pid);
    }
    stream.abort();
  }
  assert.equal((await within(PATIENCE_MS, 'a run', t.run('echo works'))).stdout, 'works\n');
  for (const { pid } of await (await t.sandbox()).commands.list()) t.pids.add(pid);
});

// e2b-dev/E2B#1474
check('disconnect_leaves_no_subscription_behind', async (t) => {
  const handle = await t.background('sleep 300');
  await eventually('attached', async () => (await t.info(handle.pid)).attachments === 1);
  await handle.disconnect();
  await eventually('detached', async () => (await t.info(handle.pid)).attachments === 0);
});
