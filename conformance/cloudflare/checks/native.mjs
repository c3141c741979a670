// One process, seen from all sides.

import assert from 'node:assert/strict';
import { eventually } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { STATELESS, fresh, textOf } from '../support.mjs';

/** E2B's list and signal, as its clients call them. */
const e2b = (t) => async (method, message) => {
  const response = await fetch(`${t.base}/e2b/process.Process/${method}`, {
    method: 'POST', headers: { 'content-type': 'application/json', 'connect-protocol-version': '1' }, body: JSON.stringify(message),
  });
  return response.json();
};

check('native_lists_attaches_and_kills_what_cloudflare_started', async (t) => {
  const processId = fresh('shared');
  const { pid } = await t.start('echo hello; sleep 300', { processId });
  const { processes } = await t.native('GET', `/v1/processes?annotation=cloudflare.process=${processId}`);
  assert.deepEqual(processes.map((process) => process.pid), [pid]);
  const [{ id }] = processes;
  await t.untilPrinted(id, 'hello');
  await t.native('POST', `/v1/processes/${id}/kill`);
  const events = await t.events(t.client().processes.streamProcessLogs(processId));
  assert.deepEqual([events.at(-1).exitCode, (await t.client().processes.getProcess(processId)).process.status], [137, 'killed']);
});

check('native_started_process_is_seen_and_killed_by_cloudflare', async (t) => {
  const made = await t.native('POST', '/v1/processes', { command: 'cat', args: ['-u'] });
  const { processes } = t.client();
  const found = (await processes.listProcesses()).processes.find(({ id }) => id === made.id);
  assert.deepEqual([found.pid, found.command, found.status], [made.pid, 'cat -u', 'running']);
  const stream = processes.streamProcessLogs(made.id);
  await t.native('POST', `/v1/processes/${made.id}/input`, { data: 'typed\n', encoding: 'utf8' });
  await eventually('its output', async () => (await processes.getProcessLogs(made.id)).stdout === 'typed\n');
  await processes.killProcess(made.id);
  assert.equal(textOf(await t.events(stream)), 'typed\n');
  assert.equal((await t.native('GET', `/v1/processes/${made.id}`)).exitReason, 'stopped');
});

check('e2b_sees_and_kills_what_cloudflare_started', async (t) => {
  const { processId, pid } = await t.start('sleep 300');
  const { processes } = await e2b(t)('List', {});
  assert.deepEqual(processes.find((process) => process.pid === pid).config.args, ['-c', 'sleep 300']);
  await e2b(t)('SendSignal', { process: { pid }, signal: 9 });
  await eventually('killed', async () => (await t.client().processes.getProcess(processId)).process.status === 'killed');
});

check('native_session_is_cloudflares_and_the_other_way_round', async (t) => {
  const id = t.session();
  await t.native('POST', '/v1/sessions', { id, cwd: '/usr' });
  assert.equal((await t.client().commands.execute('pwd; V=1', id)).stdout, '/usr\n');
  assert.equal((await t.native('POST', `/v1/sessions/${id}/exec`, { command: 'echo $V' })).stdout, '1\n');
});

check('native_terminal_is_cloudflares', async (t) => {
  const { connected, screen, sessionId } = t.addon();
  await connected();
  const { id } = await t.native('GET', `/v1/processes/tag:cloudflare-pty:${sessionId}`);
  await t.native('POST', `/v1/processes/${id}/input`, { data: 'echo from na""tive\n', encoding: 'utf8' });
  await screen.seen.until('from native');
  assert.ok(!(await t.client().processes.listProcesses()).processes.some((process) => process.id === id), 'a terminal is no process there');
});

check('native_streams_a_run', async (t) => {
  const answer = await fetch(`${t.base}/v1/processes/run`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ command: 'echo out; exit 2', shell: true, stream: true }),
  });
  assert.match(await answer.text(), /event: stdout\nid: 4\ndata: \{"data":"out\\n","offset":0\}\n\nevent: end\ndata: \{"exitCode":2,/);
  assert.notEqual(STATELESS, '');
});
