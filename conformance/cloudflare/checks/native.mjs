// One process, seen by the native API and several dialects.

import assert from 'node:assert/strict';
import { eventually } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { STATELESS, uniqueName, textOf } from '../support.mjs';

/** Calls a method of the E2B process service. */
const e2b = (t) => async (method, message) => {
  const response = await fetch(`${t.base}/e2b/process.Process/${method}`, {
    method: 'POST', headers: { 'content-type': 'application/json', 'connect-protocol-version': '1' }, body: JSON.stringify(message),
  });
  return response.json();
};

check('native_lists_and_kills_a_cloudflare_process', async (t) => {
  const processId = uniqueName('shared');
  const { pid } = await t.start('echo hello; sleep 300', { processId });
  const { processes } = await t.native('GET', `/v1/processes?annotation=cloudflare.process=${processId}`);
  assert.deepEqual(processes.map((process) => process.pid), [pid]);
  const [{ id }] = processes;
  await t.waitForOutput(id, 'hello');
  await t.native('POST', `/v1/processes/${id}/kill`);
  const events = await t.events(t.client().processes.streamProcessLogs(processId));
  assert.deepEqual([events.at(-1).exitCode, (await t.client().processes.getProcess(processId)).process.status], [137, 'killed']);
});

check('native_process_is_listed_read_and_killed_by_cloudflare', async (t) => {
  const created = await t.native('POST', '/v1/processes', { command: 'cat', args: ['-u'] });
  const { processes } = t.client();
  const found = (await processes.listProcesses()).processes.find(({ id }) => id === created.id);
  assert.deepEqual([found.pid, found.command, found.status], [created.pid, 'cat -u', 'running']);
  const stream = processes.streamProcessLogs(created.id);
  await t.native('POST', `/v1/processes/${created.id}/input`, { data: 'typed\n', encoding: 'utf8' });
  await eventually('its output', async () => (await processes.getProcessLogs(created.id)).stdout === 'typed\n');
  await processes.killProcess(created.id);
  assert.equal(textOf(await t.events(stream)), 'typed\n');
  assert.equal((await t.native('GET', `/v1/processes/${created.id}`)).exitReason, 'stopped');
});

check('e2b_lists_and_kills_a_cloudflare_process', async (t) => {
  const { processId, pid } = await t.start('sleep 300');
  const { processes } = await e2b(t)('List', {});
  assert.deepEqual(processes.find((process) => process.pid === pid).config.args, ['-c', 'sleep 300']);
  await e2b(t)('SendSignal', { process: { pid }, signal: 9 });
  await eventually('killed', async () => (await t.client().processes.getProcess(processId)).process.status === 'killed');
});

check('native_and_cloudflare_share_sessions', async (t) => {
  const id = t.session();
  await t.native('POST', '/v1/sessions', { id, cwd: '/usr' });
  assert.equal((await t.client().commands.execute('pwd; V=1', id)).stdout, '/usr\n');
  assert.equal((await t.native('POST', `/v1/sessions/${id}/exec`, { command: 'echo $V' })).stdout, '1\n');
});

check('native_types_into_a_cloudflare_terminal', async (t) => {
  const { connected, screen, sessionId } = t.addon();
  await connected();
  const { id } = await t.native('GET', `/v1/processes/tag:cloudflare-pty:${sessionId}`);
  await t.native('POST', `/v1/processes/${id}/input`, { data: 'echo from na""tive\n', encoding: 'utf8' });
  await screen.seen.waitFor('from native');
  assert.ok(!(await t.client().processes.listProcesses()).processes.some((process) => process.id === id), 'a terminal is not listed as a process');
});

check('native_streams_a_run', async (t) => {
  const reply = await fetch(`${t.base}/v1/processes/run`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ command: 'echo out; exit 2', shell: true, stream: true }),
  });
  assert.match(await reply.text(), /event: stdout\nid: 4\ndata: \{"data":"out\\n","offset":0\}\n\nevent: end\ndata: \{"exitCode":2,/);
  assert.notEqual(STATELESS, '');
});
