// Background commands: status, logs by cursor, interrupt.

import assert from 'node:assert/strict';
import { eventually, uniqueMarker, numbers, printNumbers } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { Gate } from '../../_shared/gate.mjs';
import { withoutHistory } from '../../_shared/server.mjs';
import { Context, expectError } from '../support.mjs';

check('background_run_returns_when_the_command_has_started', async (t) => {
  const all = await t.collectStream('POST', '/command', { command: 'sleep 300', background: true });
  assert.deepEqual(all.map(({ type }) => type), ['init', 'execution_complete']);
  const id = all[0].text;
  t.ids.add(id);
  const status = await t.commands.getCommandStatus(id);
  assert.deepEqual([status.id, status.running, status.exitCode, status.content], [id, true, null, 'sleep 300']);
  assert.ok(Math.abs(status.startedAt.getTime() - Date.now()) < 60_000);
  assert.equal(status.finishedAt, null);
  const { json } = await t.http('GET', `/command/status/${id}`);
  for (const absent of ['exit_code', 'error', 'finished_at']) assert.ok(!(absent in json), absent);
});

check('background_status_reports_the_exit', async (t) => {
  const id = await t.background('echo x; exit 7');
  const status = await t.waitForEnd(id);
  assert.deepEqual([status.exitCode, status.error], [7, 'exit status 7']);
  assert.ok(status.finishedAt >= status.startedAt);
  const killed = await t.waitForEnd(await t.background('kill -9 $$'));
  assert.deepEqual([killed.exitCode, killed.error], [-1, 'signal: killed']);
  assert.equal((await t.waitForEnd(await t.background('true'))).exitCode, 0);
});

check('background_status_of_an_unknown_command_is_404', async (t) => {
  for (const id of ['0'.repeat(32), 'x', 'proc_unknown']) {
    await expectError(t.commands.getCommandStatus(id), 404, 'INVALID_REQUEST_BODY', /command not found/);
  }
});

check('background_logs_are_read_by_cursor', async (t) => {
  const gate = new Gate(t.cleanUpSteps);
  const id = await t.background(`echo one; ${gate.waitCommand}; echo two`);
  const first = await eventually('the first line', async () => {
    const logs = await t.commands.getBackgroundCommandLogs(id);
    return logs.content && logs;
  });
  assert.deepEqual([first.content, first.cursor], ['one\n', 4]);
  gate.release();
  await t.waitForEnd(id);
  const rest = await t.commands.getBackgroundCommandLogs(id, first.cursor);
  assert.deepEqual([rest.content, rest.cursor], ['two\n', 8]);
  const none = await t.commands.getBackgroundCommandLogs(id, rest.cursor);
  assert.deepEqual([none.content, none.cursor], ['', 8]);
  const all = await t.http('GET', `/command/${id}/logs?cursor=nonsense`);
  assert.deepEqual([all.text, all.headers.get('content-type')], ['one\ntwo\n', 'text/plain; charset=utf-8']);
});

check('background_logs_keep_the_order_of_stdout_and_stderr', async (t) => {
  const id = await t.background('i=0; while [ $i -lt 500 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done');
  await t.waitForEnd(id);
  const { content } = await t.commands.getBackgroundCommandLogs(id);
  assert.equal(content, [...Array(500).keys()].map((i) => `o${i}\ne${i}\n`).join(''));
});

check('background_logs_of_22_mb_are_exact', async (t) => {
  const length = 22_000_000;
  const id = await t.background(printNumbers(length));
  await t.waitForEnd(id);
  const { content, cursor } = await t.commands.getBackgroundCommandLogs(id);
  assert.ok(Buffer.from(content).equals(numbers(length)), `${content.length}`);
  assert.equal(cursor, length);
});

check('background_logs_contain_every_byte_value', async (t) => {
  const id = await t.background("i=0; while [ $i -lt 256 ]; do printf \"\\\\$(printf %o $i)\"; i=$((i+1)); done");
  await t.waitForEnd(id);
  const { bytes } = await t.http('GET', `/command/${id}/logs`);
  assert.deepEqual([...bytes], [...Array(256).keys()]);
});

check('background_logs_of_other_commands_are_refused', async (t) => {
  const { id } = await t.run('echo x');
  await expectError(t.commands.getBackgroundCommandLogs(id), 400, 'INVALID_REQUEST_BODY');
  await expectError(t.commands.getBackgroundCommandLogs('0'.repeat(32)), 400, 'INVALID_REQUEST_BODY');
});

check('background_logs_that_were_overwritten_are_410', async (shared) => {
  const t = await withoutHistory(shared, Context);
  const id = await t.background('head -c 100000000 /dev/zero; echo');
  await t.waitForEnd(id);
  const { status, json } = await t.http('GET', `/command/${id}/logs?cursor=5`);
  assert.deepEqual([status, json.code], [410, 'RUNTIME_ERROR']);
  assert.match(json.message, /oldest byte kept is \d+/);
  const { bytes } = await t.http('GET', `/command/${id}/logs?cursor=99999990`);
  assert.deepEqual([bytes.length, bytes.at(-1)], [11, 10]);
});

check('interrupt_ends_the_whole_tree', async (t) => {
  const name = uniqueMarker();
  const id = await t.background(`sh -c 'sleep 300; : ${name}' & sh -c 'sleep 300; : ${name}'`);
  await eventually('both', async () => (await t.countProcesses(name)) >= 2);
  await t.commands.interrupt(id);
  assert.equal(await t.countProcesses(name), 0);
  const status = await t.commands.getCommandStatus(id);
  assert.deepEqual([status.running, status.exitCode, status.error], [false, -1, 'signal: terminated']);
});

check('interrupt_kills_a_program_that_ignores_it', async (t) => {
  const id = await t.background("trap '' TERM; echo set; while :; do sleep 0.1; done");
  await eventually('the trap', async () => (await t.commands.getBackgroundCommandLogs(id)).content === 'set\n');
  const before = Date.now();
  await t.commands.interrupt(id);
  assert.ok(Date.now() - before >= 2_500, 'it has three seconds before the kill');
  assert.equal((await t.commands.getCommandStatus(id)).error, 'signal: killed');
});

check('interrupt_of_a_foreground_command_ends_its_stream', async (t) => {
  const stream = await t.stream('POST', '/command', { command: 'sleep 300' });
  const { value } = await stream.events.next();
  await t.commands.interrupt(value.text);
  let end;
  for await (const event of stream.events) end = event;
  assert.deepEqual([end.type, end.error.evalue, end.signal], ['error', '-1', 'SIGTERM']);
});

check('interrupt_of_an_unknown_or_finished_command_is_refused', async (t) => {
  await expectError(t.commands.interrupt('0'.repeat(32)), 404, 'INVALID_REQUEST_BODY');
  const { id } = await t.run('true');
  await expectError(t.commands.interrupt(id), 409, 'RUNTIME_ERROR', /is not running/);
  const { status, json } = await t.http('DELETE', '/command');
  assert.deepEqual([status, json.code], [400, 'MISSING_QUERY']);
});
