// One process, seen by OpenSandbox, the native API and E2B.

import assert from 'node:assert/strict';
import { eventually, uniqueMarker } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { dialectId } from './pty.mjs';

export const compact = (nativeId) => dialectId(nativeId).replaceAll('-', '');

check('native_lists_and_kills_an_opensandbox_command', async (t) => {
  const name = uniqueMarker();
  const stream = await t.stream('POST', '/command', { command: `echo up; exec sleep 300; : ${name}` });
  const { value: init } = await stream.events.next();
  const [process] = await t.findNative(name);
  assert.equal(compact(process.id), init.text, 'the same id in another spelling');
  assert.equal(process.annotations['opensandbox.kind'], 'foreground');
  await t.native('POST', `/v1/processes/${process.id}/kill`);
  let end;
  for await (const event of stream.events) end = event;
  assert.deepEqual([end.type, end.signal], ['error', 'SIGKILL']);
});

check('native_process_has_status_logs_and_interrupt_in_opensandbox', async (t) => {
  const { id } = await t.native('POST', '/v1/processes', { command: 'echo native; exec sleep 300', shell: true });
  const status = await t.commands.getCommandStatus(compact(id));
  assert.deepEqual([status.running, status.content], [true, 'echo native; exec sleep 300']);
  await eventually('its output', async () => (await t.commands.getBackgroundCommandLogs(id)).content === 'native\n');
  await t.commands.interrupt(compact(id));
  assert.equal((await t.native('GET', `/v1/processes/${id}`)).exitReason, 'stopped');
});

check('native_terminal_is_attached_and_never_restarted_by_opensandbox', async (t) => {
  const { id } = await t.native('POST', '/v1/processes', { command: 'sh', tty: true, cols: 90, rows: 30 });
  const socket = await t.connect(dialectId(id));
  socket.type('stty size; exit 2\n');
  assert.equal((await socket.waitForFrame('exit')).exit_code, 2);
  assert.match(socket.printed(), /30 90/);
  const again = await t.socket(`/pty/${dialectId(id)}/ws`);
  assert.equal((await again.waitForFrame('error')).code, 'START_FAILED');
  await t.native('DELETE', `/v1/processes/${id}`);
});

check('native_lists_and_types_into_an_opensandbox_terminal', async (t) => {
  const { socket } = await t.shell();
  const { session_id: id } = socket.frames.find(({ type }) => type === 'connected');
  const [process] = (await t.native('GET', '/v1/processes')).processes.filter(({ id: nativeId }) => dialectId(nativeId) === id);
  assert.deepEqual([process.tty, process.attachments], [true, 1]);
  const data = Buffer.from('echo fro""m native\n').toString('base64');
  await t.native('POST', `/v1/processes/${process.id}/input`, { data });
  await socket.waitFor('from native');
  await t.native('POST', `/v1/processes/${process.id}/resize`, { cols: 77, rows: 22 });
  socket.type('stty size\n');
  await socket.waitFor('22 77');
});

check('native_and_opensandbox_share_sessions', async (t) => {
  const id = await t.commands.createSession();
  t.cleanUpSteps.push(() => t.commands.deleteSession(id));
  await t.commands.runInSession(id, 'export A=here');
  const { stdout } = await t.native('POST', `/v1/sessions/${id}/exec`, { command: 'echo $A' });
  assert.equal(stdout, 'here\n');
});

check('e2b_lists_and_kills_an_opensandbox_command', async (t) => {
  const name = uniqueMarker();
  const id = await t.background(`echo up; exec sleep 300; : ${name}`);
  const rpc = (method, message) => fetch(`${t.base}/e2b/process.Process/${method}`, {
    method: 'POST', headers: { 'content-type': 'application/json', 'connect-protocol-version': '1' }, body: JSON.stringify(message),
  }).then((response) => response.json());
  const { processes } = await rpc('List', {});
  const { pid } = processes.find((process) => JSON.stringify(process).includes(name));
  await rpc('SendSignal', { process: { pid }, signal: 9 });
  assert.equal((await t.waitForEnd(id)).error, 'signal: killed');
});
