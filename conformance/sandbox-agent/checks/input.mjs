// sendProcessInput.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { PATIENCE_MS } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { refused, sameBytes, within } from '../support.mjs';

check('input_encodings', async (t) => {
  const { id } = await t.start({ command: 'cat' });
  const { bytes } = await t.follow(id);
  const send = (data, encoding) => t.agent.sendProcessInput(id, { data, encoding });
  assert.deepEqual(await send('YWJj'), { bytesWritten: 3 }, 'base64 is the default');
  await bytes.untilText('abc');
  assert.deepEqual(await send('ZGVm', 'base64'), { bytesWritten: 3 });
  await bytes.untilText('abcdef');
  assert.deepEqual(await send('né', 'utf8'), { bytesWritten: 3 });
  await bytes.untilText('abcdefné');
  assert.deepEqual(await send('YWJj', 'text'), { bytesWritten: 4 });
  await bytes.untilText('abcdefnéYWJj');
  assert.equal(bytes.text(), 'abcdefnéYWJj');
});

check('input_of_nothing', async (t) => {
  const { id } = await t.start({ command: 'cat' });
  assert.deepEqual(await t.agent.sendProcessInput(id, { data: '' }), { bytesWritten: 0 });
});

check('input_bad_encoding_is_400', async (t) => {
  const { id } = await t.start({ command: 'cat' });
  await refused(t.agent.sendProcessInput(id, { data: 'x', encoding: 'rot13' }), 400, { type: 'invalid_request' });
  await refused(t.agent.sendProcessInput(id, { data: '***' }), 400, { type: 'invalid_request' });
});

check('input_size_limit_is_exact', async (t) => {
  const { id } = await t.start({ command: 'cat' });
  const of = (length) => ({ data: Buffer.alloc(length, 'x').toString('base64') });
  assert.deepEqual(await t.agent.sendProcessInput(id, of(65_536)), { bytesWritten: 65_536 });
  const problem = await refused(t.agent.sendProcessInput(id, of(65_537)), 413, { type: 'invalid_request' });
  assert.equal(problem.title, 'Payload Too Large');
  await t.limits({ maxInputBytesPerRequest: 10 });
  assert.deepEqual(await t.agent.sendProcessInput(id, of(10)), { bytesWritten: 10 });
  await refused(t.agent.sendProcessInput(id, of(11)), 413);
});

check('input_is_checked_before_the_process_is_looked_up', async (t) => {
  const send = (request) => t.agent.sendProcessInput('proc_nobody', request);
  await refused(send({ data: '***' }), 400);
  await refused(send({ data: 'x'.repeat(65_537), encoding: 'utf8' }), 413);
  await refused(send({ data: 'x', encoding: 'utf8' }), 404, { type: 'not_found' });
});

check('input_to_an_exited_process_is_409', async (t) => {
  for (const tty of [false, true]) {
    const { id } = await t.start({ command: 'true', tty });
    await t.exited(id);
    await refused(t.agent.sendProcessInput(id, { data: 'eA==' }), 409, { type: 'conflict' });
  }
});

check('input_to_a_closed_stdin_is_refused', async (t) => {
  const { id } = await t.startShell('exec 0<&-; echo closed; exec sleep 300');
  await t.untilLogged(id, 'closed');
  const answer = await t.json('POST', `/v1/processes/${id}/input`, { data: 'eA==' });
  assert.ok([409, 502].includes(answer.status), `status ${answer.status}`);
  assert.equal((await answer.json()).status, answer.status);
});

check('input_1MB_is_exact_and_in_order', async (t) => {
  const data = randomBytes(1_048_576);
  const { id } = await t.start({ command: 'cat' });
  const { bytes } = await t.follow(id);
  for (let at = 0; at < data.length; at += 65_536) {
    const { bytesWritten } = await t.agent.sendProcessInput(id, { data: data.subarray(at, at + 65_536).toString('base64') });
    assert.equal(bytesWritten, 65_536);
  }
  await bytes.untilLength(data.length);
  sameBytes(bytes.buffer(), data);
});

check('input_to_a_terminal_by_rest', async (t) => {
  const { id } = await t.startShell('read line; echo "got $line"', { tty: true });
  const { bytes } = await t.follow(id);
  await t.agent.sendProcessInput(id, { data: 'abc\n', encoding: 'utf8' });
  await bytes.untilText('got abc\r\n');
  assert.equal(bytes.text().slice(0, 14), 'abc\r\ngot abc\r\n');
});

check('input_to_a_process_that_never_reads', (t) => neverReads(t, 'echo up; exec sleep 300'));
check('input_to_a_terminal_that_never_reads', (t) =>
  neverReads(t, 'stty raw -echo; echo up; exec sleep 300', { tty: true }));

/** More input than any pipe or terminal holds; nobody but the writer may notice. */
async function neverReads(t, script, options) {
  const { id, pid } = await t.startShell(script, options);
  await t.untilLogged(id, 'up');
  // A server that fails here cannot kill it either.
  t.killAtEnd(await t.lookUp(pid));
  const data = Buffer.alloc(65_536, 'x').toString('base64');
  const writes = Array.from({ length: 4 }, () => t.agent.sendProcessInput(id, { data }));
  const answers = Promise.allSettled(writes);
  const other = await within(PATIENCE_MS, 'another process starts', t.start({ command: 'sleep', args: ['300'] }));
  // Asked more than once: the writes travel on connections of their own and may be late.
  for (let i = 0; i < 30; i += 1) {
    assert.equal((await within(PATIENCE_MS, 'get', t.agent.getProcess(id))).status, 'running');
    const { processes } = await within(PATIENCE_MS, 'list', t.agent.listProcesses());
    assert.ok(processes.some((info) => info.id === other.id));
  }
  await within(PATIENCE_MS, 'logs', t.agent.getProcessLogs(id));
  const killed = await within(PATIENCE_MS, 'kill', t.agent.killProcess(id, { waitMs: PATIENCE_MS }));
  assert.equal(killed.status, 'exited');

  const outcomes = await within(PATIENCE_MS, 'answers to the writes after the kill', answers);
  const refusals = outcomes.flatMap(({ reason }) => (reason ? [reason] : []));
  assert.ok(refusals.length > 0, 'a write that nobody can read is not called a success');
  for (const { status, problem } of refusals) {
    assert.ok(status >= 400 && status !== 500, `status ${status}`);
    assert.equal(problem?.status, status);
  }
}
