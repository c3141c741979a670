// Deadlines, keepalives, and the end envelope of streams.

import assert from 'node:assert/strict';
import { TIMEOUT_MS, eventually, expectRejection, withTimeout } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { Gate, retryWithLongerLimits } from '../../_shared/gate.mjs';

/** A started command that runs into its time limit. */
async function limited(t) {
  const [, handle] = await retryWithLongerLimits((timeoutMs) => t.background('sleep 300', { timeoutMs }).catch(() => undefined), Boolean);
  assert.ok(handle, 'the command was started');
  return handle;
}

check('deadline_of_start_limits_the_process', async (t) => {
  const handle = await limited(t);
  await expectRejection(handle.wait(), 'TimeoutError', /deadline_exceeded|timed out/);
  await t.waitForExit(handle.pid);
  assert.equal((await t.info(handle.pid)).exitReason, 'timedOut');
});

check('deadline_of_start_holds_after_the_client_has_disconnected', async (t) => {
  const handle = await limited(t);
  await handle.disconnect();
  await t.waitForExit(handle.pid);
  assert.equal((await t.info(handle.pid)).exitReason, 'timedOut');
});

check('deadline_is_reported_in_the_end_envelope', async (t) => {
  const [, { events, end }] = await retryWithLongerLimits(
    (ms) => t.collectStream('Start', t.start('/bin/sleep', ['300']), { headers: { 'connect-timeout-ms': `${ms}` } }),
    (reply) => reply.events.length > 0,
  );
  assert.equal(end.error.code, 'deadline_exceeded');
  assert.equal(events.length, 1, 'only the start event');
  for (const nonsense of ['x', '-1', '1.5', '12345678901']) {
    const { end: refusal } = await t.collectStream('Start', t.start('/bin/true'), { headers: { 'connect-timeout-ms': nonsense } });
    assert.equal(refusal.error.code, 'invalid_argument', nonsense);
  }
});

// Regression (e2b-dev/E2B#1074).
check('deadline_of_connect_ends_only_that_stream', async (t) => {
  const handle = await t.background('sleep 300');
  const connect = { process: { pid: handle.pid } };
  const { end } = await t.collectStream('Connect', connect, { headers: { 'connect-timeout-ms': '500' } });
  assert.equal(end.error.code, 'deadline_exceeded');
  assert.equal((await t.info(handle.pid)).status, 'running');
  assert.equal((await t.info(handle.pid)).timeoutMs, undefined, 'the process has no limit');
});

check('keepalive_is_sent_after_the_requested_silence', async (t) => {
  const gate = new Gate(t.cleanUpSteps);
  let silentSince = performance.now();
  const stream = await t.stream('Start', t.start('/bin/sh', ['-c', `${gate.waitCommand}; echo out; sleep 300`]), {
    headers: { 'keepalive-ping-interval': '1' },
  });
  const kinds = [];
  for await (const { payload } of stream.envelopes) {
    const { event } = JSON.parse(payload);
    const [kind] = Object.keys(event);
    if (kind === 'start') t.pids.add(event.start.pid);
    // Of consecutive events of a kind, only the first counts.
    if (kind === kinds.at(-1)) continue;
    kinds.push(kind);
    if (kind !== 'keepalive') continue;
    assert.ok(performance.now() - silentSince >= 950, 'not before the interval');
    if (kinds.length === 4) break;
    // The next output comes after this point and ends the silence.
    silentSince = performance.now();
    gate.release();
  }
  assert.deepEqual(kinds, ['start', 'keepalive', 'data', 'keepalive']);
});

// In the original it ends the whole daemon.
check('keepalive_interval_that_is_invalid_is_harmless', async (t) => {
  const { pid } = await (async () => ({ pid: (await t.native('GET', '/v1/health')).serverPid }))();
  for (const seconds of ['0', '-1', 'x', '', '99999999999999999999']) {
    const { events, end } = await t.collectStream('Start', t.start('/bin/true'), { headers: { 'keepalive-ping-interval': seconds } });
    assert.ok(events.at(-1).end.exited);
    assert.deepEqual(end, {});
  }
  assert.equal((await t.native('GET', '/v1/health')).serverPid, pid);
});

check('first_event_is_start_and_is_sent_at_once', async (t) => {
  // The program prints nothing and does not exit, so a server that waits for either never responds.
  const stream = await t.stream('Start', t.start('/bin/sleep', ['300']));
  const { value } = await stream.envelopes.next();
  const { event } = JSON.parse(value.payload);
  t.pids.add(event.start.pid);
  assert.ok(event.start.pid > 1);
  const again = await t.stream('Connect', { process: { pid: event.start.pid } });
  const first = JSON.parse((await again.envelopes.next()).value.payload);
  assert.deepEqual(first, { event: { start: { pid: event.start.pid } } });
});

check('connection_is_reusable_after_a_stream', async (t) => {
  const sandbox = await t.sandbox();
  for (let round = 0; round < 30; round += 1) {
    assert.equal((await sandbox.commands.run('echo x')).stdout, 'x\n');
    assert.ok(Array.isArray(await sandbox.commands.list()));
  }
});

// Regression (e2b-dev/infra#3256).
check('start_calls_that_disconnect_leave_the_server_usable', async (t) => {
  for (let round = 0; round < 20; round += 1) {
    const stream = await t.stream('Start', t.start('/bin/sleep', ['300']));
    if (round % 2 === 0) {
      const { value } = await stream.envelopes.next();
      t.pids.add(JSON.parse(value.payload).event.start.pid);
    }
    stream.abort();
  }
  assert.equal((await withTimeout(TIMEOUT_MS, 'a run', t.run('echo works'))).stdout, 'works\n');
  for (const { pid } of await (await t.sandbox()).commands.list()) t.pids.add(pid);
});

// Regression (e2b-dev/E2B#1474).
check('disconnect_leaves_no_attachment', async (t) => {
  const handle = await t.background('sleep 300');
  await eventually('attached', async () => (await t.info(handle.pid)).attachments === 1);
  await handle.disconnect();
  await eventually('detached', async () => (await t.info(handle.pid)).attachments === 0);
});
