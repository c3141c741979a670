// Commands in the background: status, logs by cursor, interruption.

import assert from 'node:assert/strict';
import { eventually, mark, numbers, printNumbers } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { Gate } from '../../_shared/pace.mjs';
import { refused } from '../support.mjs';

check('background_answers_when_it_was_started', async (t) => {
  const all = await t.whole('POST', '/command', { command: 'sleep 300', background: true });
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

check('background_status_after_the_end', async (t) => {
  const id = await t.background('echo x; exit 7');
  const status = await t.untilOver(id);
  assert.deepEqual([status.exitCode, status.error], [7, 'exit status 7']);
  assert.ok(status.finishedAt >= status.startedAt);
  const killed = await t.untilOver(await t.background('kill -9 $$'));
  assert.deepEqual([killed.exitCode, killed.error], [-1, 'signal: killed']);
  assert.equal((await t.untilOver(await t.background('true'))).exitCode, 0);
});

check('background_status_of_nobody_is_404', async (t) => {
  for (const id of ['0'.repeat(32), 'x', 'proc_nobody']) {
    await refused(t.commands.getCommandStatus(id), 404, 'INVALID_REQUEST_BODY', /command not found/);
  }
});

check('background_logs_by_cursor', async (t) => {
  const gate = new Gate(t.atEnd);
  const id = await t.background(`echo one; ${gate.wait}; echo two`);
  const first = await eventually('the first line', async () => {
    const logs = await t.commands.getBackgroundCommandLogs(id);
    return logs.content && logs;
  });
  assert.deepEqual([first.content, first.cursor], ['one\n', 4]);
  gate.letPass();
  await t.untilOver(id);
  const rest = await t.commands.getBackgroundCommandLogs(id, first.cursor);
  assert.deepEqual([rest.content, rest.cursor], ['two\n', 8]);
  const none = await t.commands.getBackgroundCommandLogs(id, rest.cursor);
  assert.deepEqual([none.content, none.cursor], ['', 8]);
  const all = await t.http('GET', `/command/${id}/logs?cursor=nonsense`);
  assert.deepEqual([all.text, all.headers.get('content-type')], ['one\ntwo\n', 'text/plain; charset=utf-8']);
});

check('background_logs_keep_the_order_of_both_streams', async (t) => {
  const id = await t.background('i=0; while [ $i -lt 500 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done');
  await t.untilOver(id);
  const { content } = await t.commands.getBackgroundCommandLogs(id);
  assert.equal(content, [...Array(500).keys()].map((i) => `o${i}\ne${i}\n`).join(''));
});

check('background_logs_of_22_mb_are_exact', async (t) => {
  const length = 22_000_000;
  const id = await t.background(printNumbers(length));
  await t.untilOver(id);
  const { content, cursor } = await t.commands.getBackgroundCommandLogs(id);
  assert.ok(Buffer.from(content).equals(numbers(length)), `${content.length}`);
  assert.equal(cursor, length);
});

check('background_logs_pass_every_byte', async (t) => {
  const id = await t.background("i=0; while [ $i -lt 256 ]; do printf \"\\\\$(printf %o $i)\"; i=$((i+1)); done");
  await t.untilOver(id);
  const { bytes } = await t.http('GET', `/command/${id}/logs`);
  assert.deepEqual([...bytes], [...Array(256).keys()]);
});

check('background_logs_of_others_are_refused', async (t) => {
  const { id } = await t.run('echo x');
  await refused(t.commands.getBackgroundCommandLogs(id), 400, 'INVALID_REQUEST_BODY');
  await refused(t.commands.getBackgroundCommandLogs('0'.repeat(32)), 400, 'INVALID_REQUEST_BODY');
});

check('background_logs_that_are_gone_are_said_to_be', async (t) => {
  const id = await t.background('head -c 100000000 /dev/zero; echo');
  await t.untilOver(id);
  const { status, json } = await t.http('GET', `/command/${id}/logs?cursor=5`);
  assert.deepEqual([status, json.code], [410, 'RUNTIME_ERROR']);
  assert.match(json.message, /oldest byte kept is \d+/);
  const { bytes } = await t.http('GET', `/command/${id}/logs?cursor=99999990`);
  assert.deepEqual([bytes.length, bytes.at(-1)], [11, 10]);
});

check('interrupt_ends_the_whole_tree', async (t) => {
  const name = mark();
  const id = await t.background(`sh -c 'sleep 300; : ${name}' & sh -c 'sleep 300; : ${name}'`);
  await eventually('both', async () => (await t.living(name)) >= 2);
  await t.commands.interrupt(id);
  assert.equal(await t.living(name), 0);
  const status = await t.commands.getCommandStatus(id);
  assert.deepEqual([status.running, status.exitCode, status.error], [false, -1, 'signal: terminated']);
});

check('interrupt_kills_who_ignores_it', async (t) => {
  const id = await t.background("trap '' TERM; echo set; while :; do sleep 0.1; done");
  await eventually('the trap', async () => (await t.commands.getBackgroundCommandLogs(id)).content === 'set\n');
  const before = Date.now();
  await t.commands.interrupt(id);
  assert.ok(Date.now() - before >= 2_500, 'it has three seconds');
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

check('interrupt_of_nobody_and_of_the_finished_is_refused', async (t) => {
  await refused(t.commands.interrupt('0'.repeat(32)), 404, 'INVALID_REQUEST_BODY');
  const { id } = await t.run('true');
  await refused(t.commands.interrupt(id), 409, 'RUNTIME_ERROR', /is not running/);
  const { status, json } = await t.http('DELETE', '/command');
  assert.deepEqual([status, json.code], [400, 'MISSING_QUERY']);
});
