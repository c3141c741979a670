// Exit codes, signals, timeouts.

import assert from 'node:assert/strict';
import { eventually, uniqueMarker } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';

const last = async (t, body) => (await t.collectStream('POST', '/command', body)).at(-1);

check('end_event_has_the_exit_code', async (t) => {
  const { exitCode, error } = await t.run('exit 3');
  assert.deepEqual([exitCode, error.name, error.value, error.traceback], [3, 'CommandExecError', '3', ['exit status 3']]);
});

check('end_event_names_the_signal', async (t) => {
  const { exitCode, error } = await t.run('kill -9 $$');
  assert.deepEqual([exitCode, error.traceback], [-1, ['signal: killed']]);
  const event = await last(t, { command: 'kill -TERM $$' });
  assert.deepEqual([event.error.evalue, event.error.traceback[0], event.signal, event.timed_out], ['-1', 'signal: terminated', 'SIGTERM', undefined]);
});

check('end_by_timeout_differs_from_a_kill', async (t) => {
  const event = await last(t, { command: 'sleep 300', timeout: 300 });
  assert.equal(event.error.evalue, '-1');
  assert.equal(event.error.traceback[0], 'signal: killed');
  assert.match(event.error.traceback[1], /timeout after 300ms/);
  assert.equal(event.timed_out, true);
});

check('end_by_timeout_kills_the_whole_tree', async (t) => {
  const name = uniqueMarker();
  const { exitCode, id } = await t.run(`trap '' TERM; setsid sh -c 'sleep 300; : ${name}' & sh -c 'sleep 300; : ${name}'`, { timeoutSeconds: 0.4 });
  assert.equal(exitCode, -1);
  assert.equal((await t.commands.getCommandStatus(id)).exitCode, -1);
  await eventually('the tree is killed', async () => (await t.countProcesses(name)) === 0);
});

check('timeout_of_zero_means_no_limit', async (t) => {
  const all = await t.collectStream('POST', '/command', { command: 'sleep 0.2; echo on', timeout: 0 });
  assert.deepEqual(all.map(({ type }) => type), ['init', 'stdout', 'execution_complete']);
  assert.ok(all.at(-1).execution_time >= 200, 'execution_time is the duration');
});

check('end_event_reports_a_deleted_command', async (t) => {
  const stream = await t.stream('POST', '/command', { command: 'sleep 300' });
  const { value } = await stream.events.next();
  assert.equal((await t.http('DELETE', `/pty/${value.text}`)).status, 200, 'any process can be deleted by its id');
  let end;
  for await (const event of stream.events) end = event;
  assert.equal(end.type, 'error');
});
