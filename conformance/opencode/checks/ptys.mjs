// Terminals: list, create, get, update, remove; by both clients.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { eventually } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { data, nativeId, refused } from '../support.mjs';

check('pty_shells_are_those_of_etc_shells', async (t) => {
  const shells = data(await t.second.pty.shells());
  const listed = readFileSync('/etc/shells', 'utf8').split('\n').filter((line) => line.startsWith('/'));
  assert.ok(shells.length > 0 && shells.every(({ path }) => listed.includes(path)));
  for (const { path, name, acceptable } of shells) {
    assert.deepEqual([name, acceptable], [path.split('/').at(-1), !['fish', 'nu'].includes(name)]);
  }
});

check('pty_create_without_a_word_is_a_login_shell_in_both_clients', async (t) => {
  for (const [client, args] of [[t.first, []], [t.first, [{}]], [t.second, []], [t.second, [{}]]]) {
    const pty = data(await client.pty.create(...args));
    t.atEnd.push(() => t.native('DELETE', `/v1/processes/${nativeId(pty.id)}?force=true`));
    assert.deepEqual(Object.keys(pty).sort(), ['args', 'command', 'cwd', 'id', 'pid', 'status', 'title']);
    assert.match(pty.id, /^pty_/);
    assert.deepEqual([pty.args, pty.status, pty.title], [['-l'], 'running', `Terminal ${pty.id.slice(-4)}`]);
    assert.match(pty.command, /sh$/);
    assert.match(pty.cwd, /^\//);
    process.kill(pty.pid, 0);
  }
});

check('pty_create_by_the_first_client', async (t) => {
  const body = { command: '/bin/sh', args: ['-c', 'echo "[$A] $PWD $0 $1"; exec cat', 'zero', 'one two'], cwd: '/usr', title: 'mine', env: { A: 'b' } };
  const pty = await t.made(t.first, { body });
  assert.deepEqual([pty.title, pty.cwd, pty.command, pty.args], ['mine', '/usr', '/bin/sh', body.args]);
  const terminal = await t.connect(pty.id);
  await terminal.until('[b] /usr zero one two\r\n');
});

check('pty_environment_is_the_servers_with_what_cannot_be_changed', async (t) => {
  const pty = await t.pty('echo "$TERM $OPENCODE_TERMINAL $B ${PATH:+path} $OUTLIVE_TOKEN."; exec cat', { env: { TERM: 'vt52', OPENCODE_TERMINAL: '0', B: 'c d' } });
  const terminal = await t.connect(pty.id);
  await terminal.until('xterm-256color 1 c d path .\r\n');
});

check('pty_begins_with_24_rows_and_80_columns_in_a_session_of_its_own', async (t) => {
  const pty = await t.pty('stty size; ps -o pid=,pgid=,sid= -p $$; echo end; exec cat');
  const terminal = await t.connect(pty.id);
  await terminal.until('end');
  assert.match(terminal.text, /^24 80\r\n/);
  const [pid, group, session] = terminal.text.split('\r\n')[1].trim().split(/\s+/).map(Number);
  assert.deepEqual([pid, group, session], [pty.pid, pty.pid, pty.pid]);
});

check('pty_login_flag_is_for_shells_without_a_script_only', async (t) => {
  const args = async (options) => (await t.made(t.second, options)).args;
  assert.deepEqual(await args({ command: '/bin/sh', args: ['-i'] }), ['-i', '-l']);
  assert.deepEqual(await args({ command: '/bin/sh', args: ['-c', 'exec cat'] }), ['-c', 'exec cat']);
  assert.deepEqual(await args({ command: '/bin/cat' }), []);
  assert.deepEqual(await args({ command: 'cat', args: ['-'] }), ['-']);
});

check('pty_list_has_those_that_run_in_order', async (t) => {
  const made = [];
  for (const title of ['one', 'two', 'three']) made.push(await t.pty('exec cat', { title }));
  const over = await t.pty('exit 0');
  await t.untilExited(over);
  for (const client of [t.first, t.second]) {
    const listed = data(await client.pty.list());
    assert.deepEqual(listed.filter(({ id }) => made.some((pty) => pty.id === id)), made);
    assert.ok(!listed.some(({ id }) => id === over.id) && listed.every(({ status }) => status === 'running'));
  }
});

check('pty_get_in_both_clients', async (t) => {
  const pty = await t.pty('exec cat');
  assert.deepEqual(data(await t.first.pty.get({ path: { id: pty.id } })), pty);
  assert.deepEqual(data(await t.second.pty.get({ ptyID: pty.id })), pty);
});

check('pty_get_is_404_once_it_has_exited', async (t) => {
  const pty = await t.pty('exit 3');
  await t.untilExited(pty);
  const error = refused(await t.second.pty.get({ ptyID: pty.id }), 404);
  assert.deepEqual(error, { _tag: 'PtyNotFoundError', ptyID: pty.id, message: `PTY session not found: ${pty.id}` });
});

check('pty_update_sets_title_and_size_and_the_program_sees_it', async (t) => {
  const pty = await t.pty(`trap 'stty size; echo winch' WINCH; echo ready; while :; do sleep 0.05; done`);
  const terminal = await t.connect(pty.id);
  await terminal.until('ready');
  const updated = data(await t.second.pty.update({ ptyID: pty.id, title: 'new title', size: { rows: 33, cols: 111 } }));
  assert.deepEqual(updated, { ...pty, title: 'new title' });
  await terminal.until('33 111\r\nwinch');
  data(await t.first.pty.update({ path: { id: pty.id }, body: { size: { rows: 65535, cols: 1 } } }));
  await terminal.until('65535 1\r\n');
  assert.equal(data(await t.second.pty.update({ ptyID: pty.id, title: '' })).title, 'new title', 'an empty one is ignored');
  assert.equal((await t.native('GET', `/v1/processes/${nativeId(pty.id)}`)).label, 'new title');
});

check('pty_update_of_one_that_has_exited_is_404', async (t) => {
  const pty = await t.pty('exit 0');
  await t.untilExited(pty);
  refused(await t.second.pty.update({ ptyID: pty.id, size: { rows: 2, cols: 2 } }), 404);
});

check('pty_remove_is_true_at_once_and_closes_sockets', async (t) => {
  for (const remove of [(id) => t.first.pty.remove({ path: { id } }), (id) => t.second.pty.remove({ ptyID: id })]) {
    const pty = await t.pty('echo up; exec cat');
    const terminal = await t.connect(pty.id);
    await terminal.until('up');
    assert.equal(data(await remove(pty.id)), true);
    refused(await remove(pty.id), 404);
    refused(await t.second.pty.get({ ptyID: pty.id }), 404);
    assert.ok(!data(await t.second.pty.list()).some(({ id }) => id === pty.id));
    assert.equal((await terminal.end()).code, 1000);
    await eventually('its record is gone', async () => (await fetch(`${t.base}/v1/processes/${nativeId(pty.id)}`)).status === 404);
  }
});

check('pty_is_found_for_its_folder_only_when_one_is_named', async (t) => {
  const [usr, etc] = [t.secondWith({ directory: '/usr' }), t.secondWith({ directory: '/etc' })];
  const pty = await t.made(usr, { command: 'cat' });
  assert.equal(pty.cwd, '/usr');
  const has = async (client) => data(await client.pty.list()).some(({ id }) => id === pty.id);
  assert.deepEqual([await has(usr), await has(etc), await has(t.second)], [true, false, true]);
  assert.equal(data(await usr.pty.update({ ptyID: pty.id, title: 'x' })).title, 'x', 'by the header');
  refused(await etc.pty.get({ ptyID: pty.id }), 404);
  refused(await etc.pty.remove({ ptyID: pty.id }), 404);
  const socket = t.socket(pty.id, { query: { directory: '/etc' } });
  await assert.rejects(socket.opened, { status: 404 });
  await (await t.connect(pty.id, { query: { directory: '/usr' } })).ready();
  const odd = t.secondWith({ directory: '/tmp/a folder+é' });
  assert.equal(refused(await odd.pty.create({ command: 'cat' }), 400).name, 'BadRequest', 'it is not there');
});
