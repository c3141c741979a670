// Terminals with both clients: list, create, get, update, remove.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { eventually } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { data, nativeId, expectError } from '../support.mjs';

check('pty_shells_are_those_of_etc_shells', async (t) => {
  const shells = data(await t.sdkV2.pty.shells());
  const listed = readFileSync('/etc/shells', 'utf8').split('\n').filter((line) => line.startsWith('/'));
  assert.ok(shells.length > 0 && shells.every(({ path }) => listed.includes(path)));
  for (const { path, name, acceptable } of shells) {
    assert.deepEqual([name, acceptable], [path.split('/').at(-1), !['fish', 'nu'].includes(name)]);
  }
});

check('pty_create_without_options_starts_a_login_shell_in_both_clients', async (t) => {
  for (const [client, args] of [[t.sdkV1, []], [t.sdkV1, [{}]], [t.sdkV2, []], [t.sdkV2, [{}]]]) {
    const pty = data(await client.pty.create(...args));
    t.cleanUpSteps.push(() => t.native('DELETE', `/v1/processes/${nativeId(pty.id)}?force=true`));
    assert.deepEqual(Object.keys(pty).sort(), ['args', 'command', 'cwd', 'id', 'pid', 'status', 'title']);
    assert.match(pty.id, /^pty_/);
    assert.deepEqual([pty.args, pty.status, pty.title], [['-l'], 'running', `Terminal ${pty.id.slice(-4)}`]);
    assert.match(pty.command, /sh$/);
    assert.match(pty.cwd, /^\//);
    process.kill(pty.pid, 0);
  }
});

check('pty_create_works_with_the_v1_client', async (t) => {
  const body = { command: '/bin/sh', args: ['-c', 'echo "[$A] $PWD $0 $1"; exec cat', 'zero', 'one two'], cwd: '/usr', title: 'mine', env: { A: 'b' } };
  const pty = await t.createPty(t.sdkV1, { body });
  assert.deepEqual([pty.title, pty.cwd, pty.command, pty.args], ['mine', '/usr', '/bin/sh', body.args]);
  const terminal = await t.connect(pty.id);
  await terminal.waitFor('[b] /usr zero one two\r\n');
});

check('pty_environment_is_the_servers_with_fixed_variables', async (t) => {
  const pty = await t.pty('echo "$TERM $OPENCODE_TERMINAL $B ${PATH:+path} $OUTLIVE_TOKEN."; exec cat', { env: { TERM: 'vt52', OPENCODE_TERMINAL: '0', B: 'c d' } });
  const terminal = await t.connect(pty.id);
  await terminal.waitFor('xterm-256color 1 c d path .\r\n');
});

check('pty_starts_with_24_rows_and_80_columns_in_its_own_session', async (t) => {
  const pty = await t.pty('stty size; ps -o pid=,pgid=,sid= -p $$; echo end; exec cat');
  const terminal = await t.connect(pty.id);
  await terminal.waitFor('end');
  assert.match(terminal.text, /^24 80\r\n/);
  const [pid, group, session] = terminal.text.split('\r\n')[1].trim().split(/\s+/).map(Number);
  assert.deepEqual([pid, group, session], [pty.pid, pty.pid, pty.pid]);
});

check('pty_login_flag_is_added_only_to_shells_without_a_script', async (t) => {
  const args = async (options) => (await t.createPty(t.sdkV2, options)).args;
  assert.deepEqual(await args({ command: '/bin/sh', args: ['-i'] }), ['-i', '-l']);
  assert.deepEqual(await args({ command: '/bin/sh', args: ['-c', 'exec cat'] }), ['-c', 'exec cat']);
  assert.deepEqual(await args({ command: '/bin/cat' }), []);
  assert.deepEqual(await args({ command: 'cat', args: ['-'] }), ['-']);
});

check('pty_list_contains_running_terminals_in_order', async (t) => {
  const created = [];
  for (const title of ['one', 'two', 'three']) created.push(await t.pty('exec cat', { title }));
  const over = await t.pty('exit 0');
  await t.waitForExit(over);
  for (const client of [t.sdkV1, t.sdkV2]) {
    const listed = data(await client.pty.list());
    assert.deepEqual(listed.filter(({ id }) => created.some((pty) => pty.id === id)), created);
    assert.ok(!listed.some(({ id }) => id === over.id) && listed.every(({ status }) => status === 'running'));
  }
});

check('pty_get_works_in_both_clients', async (t) => {
  const pty = await t.pty('exec cat');
  assert.deepEqual(data(await t.sdkV1.pty.get({ path: { id: pty.id } })), pty);
  assert.deepEqual(data(await t.sdkV2.pty.get({ ptyID: pty.id })), pty);
});

check('pty_get_is_404_after_the_exit', async (t) => {
  const pty = await t.pty('exit 3');
  await t.waitForExit(pty);
  const error = expectError(await t.sdkV2.pty.get({ ptyID: pty.id }), 404);
  assert.deepEqual(error, { _tag: 'PtyNotFoundError', ptyID: pty.id, message: `PTY session not found: ${pty.id}` });
});

check('pty_update_sets_title_and_size_and_the_program_sees_it', async (t) => {
  const pty = await t.pty(`trap 'stty size; echo winch' WINCH; echo ready; while :; do sleep 0.05; done`);
  const terminal = await t.connect(pty.id);
  await terminal.waitFor('ready');
  const updated = data(await t.sdkV2.pty.update({ ptyID: pty.id, title: 'new title', size: { rows: 33, cols: 111 } }));
  assert.deepEqual(updated, { ...pty, title: 'new title' });
  await terminal.waitFor('33 111\r\nwinch');
  data(await t.sdkV1.pty.update({ path: { id: pty.id }, body: { size: { rows: 65535, cols: 1 } } }));
  await terminal.waitFor('65535 1\r\n');
  assert.equal(data(await t.sdkV2.pty.update({ ptyID: pty.id, title: '' })).title, 'new title', 'an empty title is ignored');
  assert.equal((await t.native('GET', `/v1/processes/${nativeId(pty.id)}`)).label, 'new title');
});

check('pty_update_is_404_after_the_exit', async (t) => {
  const pty = await t.pty('exit 0');
  await t.waitForExit(pty);
  expectError(await t.sdkV2.pty.update({ ptyID: pty.id, size: { rows: 2, cols: 2 } }), 404);
});

check('pty_remove_returns_true_at_once_and_closes_sockets', async (t) => {
  for (const remove of [(id) => t.sdkV1.pty.remove({ path: { id } }), (id) => t.sdkV2.pty.remove({ ptyID: id })]) {
    const pty = await t.pty('echo up; exec cat');
    const terminal = await t.connect(pty.id);
    await terminal.waitFor('up');
    assert.equal(data(await remove(pty.id)), true);
    expectError(await remove(pty.id), 404);
    expectError(await t.sdkV2.pty.get({ ptyID: pty.id }), 404);
    assert.ok(!data(await t.sdkV2.pty.list()).some(({ id }) => id === pty.id));
    assert.equal((await terminal.waitForClose()).code, 1000);
    await eventually('its record is gone', async () => (await fetch(`${t.base}/v1/processes/${nativeId(pty.id)}`)).status === 404);
  }
});

check('pty_is_found_only_in_its_directory_when_one_is_named', async (t) => {
  const [usr, etc] = [t.sdkV2With({ directory: '/usr' }), t.sdkV2With({ directory: '/etc' })];
  const pty = await t.createPty(usr, { command: 'cat' });
  assert.equal(pty.cwd, '/usr');
  const has = async (client) => data(await client.pty.list()).some(({ id }) => id === pty.id);
  assert.deepEqual([await has(usr), await has(etc), await has(t.sdkV2)], [true, false, true]);
  assert.equal(data(await usr.pty.update({ ptyID: pty.id, title: 'x' })).title, 'x', 'selected by the header');
  expectError(await etc.pty.get({ ptyID: pty.id }), 404);
  expectError(await etc.pty.remove({ ptyID: pty.id }), 404);
  const socket = t.socket(pty.id, { query: { directory: '/etc' } });
  await assert.rejects(socket.opened, { status: 404 });
  await (await t.connect(pty.id, { query: { directory: '/usr' } })).ready();
  const odd = t.sdkV2With({ directory: '/tmp/a directory+é' });
  assert.equal(expectError(await odd.pty.create({ command: 'cat' }), 400).name, 'BadRequest', 'the directory does not exist');
});
