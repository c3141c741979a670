// One process, seen by the native API and several dialects.

import assert from 'node:assert/strict';
import { eventually } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { checkInEmptyHome } from '../empty-home.mjs';
import { data, nativeId, expectError } from '../support.mjs';

check('native_lists_types_into_and_kills_an_opencode_terminal', async (t) => {
  const pty = await t.pty('stty -echo; echo hello; exec cat', { title: 'seen from there' });
  const terminal = await t.connect(pty.id);
  await terminal.waitFor('hello');
  const { processes } = await t.native('GET', '/v1/processes?status=running');
  const found = processes.find(({ id }) => id === nativeId(pty.id));
  assert.deepEqual([found.pid, found.tty, found.label, found.attachments], [pty.pid, true, 'seen from there', 1]);
  await t.native('POST', `/v1/processes/${found.id}/input`, { data: 'typed there\n', encoding: 'utf8' });
  await terminal.waitFor('typed there');
  await t.native('PATCH', `/v1/processes/${found.id}`, { label: 'renamed there' });
  assert.equal(data(await t.sdkV2.pty.get({ ptyID: pty.id })).title, 'renamed there');
  await t.native('POST', `/v1/processes/${found.id}/kill`);
  assert.equal((await terminal.waitForClose()).code, 1000);
  assert.equal((await t.nativeOutput(found.id)).toString(), terminal.text);
});

check('native_terminal_is_listed_typed_into_and_removed_by_opencode', async (t) => {
  const created = await t.native('POST', '/v1/processes', { command: 'stty -echo; echo "from native é😀"; exec cat', shell: true, tty: true, cwd: '/usr', label: 'theirs' });
  t.cleanUpSteps.push(() => t.native('DELETE', `/v1/processes/${created.id}?force=true`));
  const id = created.id.replace('proc_', 'pty_');
  const pty = data(await t.sdkV2.pty.list()).find((one) => one.id === id);
  assert.deepEqual([pty.title, pty.cwd, pty.pid, pty.command], ['theirs', '/usr', created.pid, '/bin/sh']);
  await t.waitForOutput(created.id, 'native');
  const terminal = await (await t.connect(id)).ready();
  assert.deepEqual([terminal.text, terminal.controls[0].cursor], ['from native é😀\r\n', 17]);
  terminal.send('hi\n');
  await terminal.waitFor('hi');
  assert.equal(data(await t.sdkV2.pty.remove({ ptyID: id })), true);
  await eventually('gone', async () => (await fetch(`${t.base}/v1/processes/${created.id}`)).status === 404);
});

check('native_processes_on_pipes_are_not_listed_as_terminals', async (t) => {
  const created = await t.native('POST', '/v1/processes', { command: 'cat' });
  t.cleanUpSteps.push(() => t.native('DELETE', `/v1/processes/${created.id}?force=true`));
  expectError(await t.sdkV2.pty.get({ ptyID: created.id.replace('proc_', 'pty_') }), 404);
  const reserved = await t.native('POST', '/v1/processes', { command: 'cat', tty: true, start: false });
  t.cleanUpSteps.push(() => t.native('DELETE', `/v1/processes/${reserved.id}?force=true`));
  expectError(await t.sdkV2.pty.get({ ptyID: reserved.id.replace('proc_', 'pty_') }), 404);
});

checkInEmptyHome('native_lists_kills_and_shows_context_of_session_commands', async (t) => {
  const session = await t.session();
  const done = t.shell('echo working; sleep 60', session);
  const found = await eventually('listed', async () => {
    const { processes } = await t.native('GET', `/v1/processes?sessionId=${session.id}`);
    return processes[0]?.status === 'running' && processes[0];
  });
  assert.deepEqual([found.source, found.annotations['opencode.session'], found.tty], ['user', session.id, false]);
  await t.waitForOutput(found.id, 'working');
  await t.native('POST', `/v1/processes/${found.id}/kill`);
  const { state } = await done;
  assert.deepEqual([state.output, state.metadata.exit, state.metadata.signal, state.metadata.processID], ['working\n', 137, 'SIGKILL', found.id]);
  const context = await t.native('GET', `/v1/context?sessionId=${session.id}`);
  assert.match(JSON.stringify(context), /working/);
});

check('e2b_lists_and_kills_an_opencode_terminal', async (t) => {
  const pty = await t.pty('echo up; exec cat');
  const terminal = await t.connect(pty.id);
  await terminal.waitFor('up');
  const call = async (method, message) => {
    const headers = { 'content-type': 'application/json', 'connect-protocol-version': '1' };
    return (await fetch(`${t.base}/e2b/process.Process/${method}`, { method: 'POST', headers, body: JSON.stringify(message) })).json();
  };
  const { processes } = await call('List', {});
  assert.ok(processes.some(({ pid }) => pid === pty.pid));
  await call('SendSignal', { process: { pid: pty.pid }, signal: 'SIGNAL_SIGKILL' });
  assert.equal((await terminal.waitForClose()).code, 1000);
  assert.equal(data(await t.sdkV2.v2.pty.get({ ptyID: pty.id })).data.exitCode, 137);
});
