// sendProcessInput.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { TIMEOUT_MS, withTimeout } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { expectProblem, assertSameBytes } from '../support.mjs';

check('input_accepts_all_encodings', async (t) => {
  const { id } = await t.start({ command: 'cat' });
  const { bytes } = await t.follow(id);
  const send = (data, encoding) => t.agent.sendProcessInput(id, { data, encoding });
  assert.deepEqual(await send('YWJj'), { bytesWritten: 3 }, 'base64 is the default');
  await bytes.waitForText('abc');
  assert.deepEqual(await send('ZGVm', 'base64'), { bytesWritten: 3 });
  await bytes.waitForText('abcdef');
  assert.deepEqual(await send('né', 'utf8'), { bytesWritten: 3 });
  await bytes.waitForText('abcdefné');
  assert.deepEqual(await send('YWJj', 'text'), { bytesWritten: 4 });
  await bytes.waitForText('abcdefnéYWJj');
  assert.equal(bytes.text(), 'abcdefnéYWJj');
});

check('input_may_be_empty', async (t) => {
  const { id } = await t.start({ command: 'cat' });
  assert.deepEqual(await t.agent.sendProcessInput(id, { data: '' }), { bytesWritten: 0 });
});

check('input_bad_encoding_is_400', async (t) => {
  const { id } = await t.start({ command: 'cat' });
  await expectProblem(t.agent.sendProcessInput(id, { data: 'x', encoding: 'rot13' }), 400, { type: 'invalid_request' });
  await expectProblem(t.agent.sendProcessInput(id, { data: '***' }), 400, { type: 'invalid_request' });
});

check('input_size_limit_is_exact', async (t) => {
  const { id } = await t.start({ command: 'cat' });
  const of = (length) => ({ data: Buffer.alloc(length, 'x').toString('base64') });
  assert.deepEqual(await t.agent.sendProcessInput(id, of(65_536)), { bytesWritten: 65_536 });
  const problem = await expectProblem(t.agent.sendProcessInput(id, of(65_537)), 413, { type: 'invalid_request' });
  assert.equal(problem.title, 'Payload Too Large');
  await t.changeLimits({ maxInputBytesPerRequest: 10 });
  assert.deepEqual(await t.agent.sendProcessInput(id, of(10)), { bytesWritten: 10 });
  await expectProblem(t.agent.sendProcessInput(id, of(11)), 413);
});

check('input_is_checked_before_the_process_is_looked_up', async (t) => {
  const send = (request) => t.agent.sendProcessInput('proc_unknown', request);
  await expectProblem(send({ data: '***' }), 400);
  await expectProblem(send({ data: 'x'.repeat(65_537), encoding: 'utf8' }), 413);
  await expectProblem(send({ data: 'x', encoding: 'utf8' }), 404, { type: 'not_found' });
});

check('input_to_an_exited_process_is_409', async (t) => {
  for (const tty of [false, true]) {
    const { id } = await t.start({ command: 'true', tty });
    await t.waitForExit(id);
    await expectProblem(t.agent.sendProcessInput(id, { data: 'eA==' }), 409, { type: 'conflict' });
  }
});

check('input_to_a_closed_stdin_is_refused', async (t) => {
  const { id } = await t.startShell('exec 0<&-; echo closed; exec sleep 300');
  await t.waitForLog(id, 'closed');
  const reply = await t.json('POST', `/v1/processes/${id}/input`, { data: 'eA==' });
  assert.ok([409, 502].includes(reply.status), `status ${reply.status}`);
  assert.equal((await reply.json()).status, reply.status);
});

check('input_1MB_is_exact_and_in_order', async (t) => {
  const data = randomBytes(1_048_576);
  const { id } = await t.start({ command: 'cat' });
  const { bytes } = await t.follow(id);
  for (let at = 0; at < data.length; at += 65_536) {
    const { bytesWritten } = await t.agent.sendProcessInput(id, { data: data.subarray(at, at + 65_536).toString('base64') });
    assert.equal(bytesWritten, 65_536);
  }
  await bytes.waitForLength(data.length);
  assertSameBytes(bytes.buffer(), data);
});

check('input_to_a_terminal_works_over_rest', async (t) => {
  const { id } = await t.startShell('read line; echo "got $line"', { tty: true });
  const { bytes } = await t.follow(id);
  await t.agent.sendProcessInput(id, { data: 'abc\n', encoding: 'utf8' });
  await bytes.waitForText('got abc\r\n');
  assert.equal(bytes.text().slice(0, 14), 'abc\r\ngot abc\r\n');
});

check('input_to_a_process_that_never_reads_delays_no_other_call', (t) => neverReads(t, 'echo up; exec sleep 300'));
check('input_to_a_terminal_that_never_reads_delays_no_other_call', (t) =>
  neverReads(t, 'stty raw -echo; echo up; exec sleep 300', { tty: true }));

/** Sends more input than any pipe or terminal holds. Only the writer may be delayed. */
async function neverReads(t, script, options) {
  const { id, pid } = await t.startShell(script, options);
  await t.waitForLog(id, 'up');
  // A server that fails here cannot kill the process either.
  t.killAtEnd(await t.findProcess(pid));
  const data = Buffer.alloc(65_536, 'x').toString('base64');
  const writes = Array.from({ length: 4 }, () => t.agent.sendProcessInput(id, { data }));
  const replies = Promise.allSettled(writes);
  const other = await withTimeout(TIMEOUT_MS, 'the start of another process', t.start({ command: 'sleep', args: ['300'] }));
  // Called repeatedly, because the writes use other connections and may arrive late.
  for (let i = 0; i < 30; i += 1) {
    assert.equal((await withTimeout(TIMEOUT_MS, 'get', t.agent.getProcess(id))).status, 'running');
    const { processes } = await withTimeout(TIMEOUT_MS, 'list', t.agent.listProcesses());
    assert.ok(processes.some((info) => info.id === other.id));
  }
  await withTimeout(TIMEOUT_MS, 'logs', t.agent.getProcessLogs(id));
  const killed = await withTimeout(TIMEOUT_MS, 'kill', t.agent.killProcess(id, { waitMs: TIMEOUT_MS }));
  assert.equal(killed.status, 'exited');

  const outcomes = await withTimeout(TIMEOUT_MS, 'replies to the writes after the kill', replies);
  const refusals = outcomes.flatMap(({ reason }) => (reason ? [reason] : []));
  assert.ok(refusals.length > 0, 'a write to a process that never reads fails');
  for (const { status, problem } of refusals) {
    assert.ok(status >= 400 && status !== 500, `status ${status}`);
    assert.equal(problem?.status, status);
  }
}
