// Started here, seen and ended elsewhere; and the other way round.

import assert from 'node:assert/strict';
import { eventually, mark } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { theirs } from './pty.mjs';

export const compact = (own) => theirs(own).replaceAll('-', '');

check('native_lists_and_kills_what_was_started_here', async (t) => {
  const name = mark();
  const stream = await t.stream('POST', '/command', { command: `echo up; exec sleep 300; : ${name}` });
  const { value: init } = await stream.events.next();
  const [process] = await t.listed(name);
  assert.equal(compact(process.id), init.text, 'the same id in another spelling');
  assert.equal(process.annotations['opensandbox.kind'], 'foreground');
  await t.native('POST', `/v1/processes/${process.id}/kill`);
  let end;
  for await (const event of stream.events) end = event;
  assert.deepEqual([end.type, end.signal], ['error', 'SIGKILL']);
});

check('native_commands_have_status_logs_and_interruption_here', async (t) => {
  const { id } = await t.native('POST', '/v1/processes', { command: 'echo native; exec sleep 300', shell: true });
  const status = await t.commands.getCommandStatus(compact(id));
  assert.deepEqual([status.running, status.content], [true, 'echo native; exec sleep 300']);
  await eventually('its output', async () => (await t.commands.getBackgroundCommandLogs(id)).content === 'native\n');
  await t.commands.interrupt(compact(id));
  assert.equal((await t.native('GET', `/v1/processes/${id}`)).exitReason, 'stopped');
});

check('native_terminals_are_attached_to_here_and_not_started_again', async (t) => {
  const { id } = await t.native('POST', '/v1/processes', { command: 'sh', tty: true, cols: 90, rows: 30 });
  const socket = await t.connect(theirs(id));
  socket.type('stty size; exit 2\n');
  assert.equal((await socket.text('exit')).exit_code, 2);
  assert.match(socket.printed(), /30 90/);
  const again = await t.socket(`/pty/${theirs(id)}/ws`);
  assert.equal((await again.text('error')).code, 'START_FAILED');
  await t.native('DELETE', `/v1/processes/${id}`);
});

check('native_sees_and_types_into_terminals_of_here', async (t) => {
  const { socket } = await t.shell();
  const { session_id: id } = socket.frames.find(({ type }) => type === 'connected');
  const [process] = (await t.native('GET', '/v1/processes')).processes.filter(({ id: own }) => theirs(own) === id);
  assert.deepEqual([process.tty, process.attachments], [true, 1]);
  const data = Buffer.from('echo fro""m native\n').toString('base64');
  await t.native('POST', `/v1/processes/${process.id}/input`, { data });
  await socket.until('from native');
  await t.native('POST', `/v1/processes/${process.id}/resize`, { cols: 77, rows: 22 });
  socket.type('stty size\n');
  await socket.until('22 77');
});

check('native_sessions_are_the_same', async (t) => {
  const id = await t.commands.createSession();
  t.atEnd.push(() => t.commands.deleteSession(id));
  await t.commands.runInSession(id, 'export A=here');
  const { stdout } = await t.native('POST', `/v1/sessions/${id}/exec`, { command: 'echo $A' });
  assert.equal(stdout, 'here\n');
});

check('native_of_e2b_shows_and_kills_what_was_started_here', async (t) => {
  const name = mark();
  const id = await t.background(`echo up; exec sleep 300; : ${name}`);
  const rpc = (method, message) => fetch(`${t.base}/e2b/process.Process/${method}`, {
    method: 'POST', headers: { 'content-type': 'application/json', 'connect-protocol-version': '1' }, body: JSON.stringify(message),
  }).then((response) => response.json());
  const { processes } = await rpc('List', {});
  const { pid } = processes.find((process) => JSON.stringify(process).includes(name));
  await rpc('SendSignal', { process: { pid }, signal: 9 });
  assert.equal((await t.untilOver(id)).error, 'signal: killed');
});
