// The server dies in the middle, or is replaced.

import assert from 'node:assert/strict';
import { eventually, mark } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { Gate } from '../../_shared/pace.mjs';
import { checkInEmptyHome } from '../empty-home.mjs';
import { data } from '../support.mjs';

check('survival_kill_9_in_the_middle_loses_nothing', async (t) => {
  const pty = await t.pty('stty -echo; echo ready; n=0; while read count; do i=0; while [ $i -lt $count ]; do echo "line $n é😀"; n=$((n+1)); i=$((i+1)); done; done');
  const lines = (count) => `ready\r\n${[...Array(count).keys()].map((n) => `line ${n} é😀\r\n`).join('')}`;
  let terminal = await (await t.connect(pty.id)).until('ready');
  let joined = '';
  for (let round = 1; round <= 3; round += 1) {
    terminal.send('50\n');
    await terminal.until(({ text }) => joined + text === lines(round * 50));
    await t.killServer();
    assert.notEqual((await terminal.end()).code, 1000, 'the client takes 1000 for the end');
    joined += terminal.text;
    assert.equal(data(await t.second.pty.get({ ptyID: pty.id })).id, pty.id, 'the same id');
    terminal = await (await t.connect(pty.id, { cursor: terminal.cursor })).ready();
    assert.equal(terminal.text, '', 'and nothing twice');
  }
  terminal.send('1\n');
  await terminal.until(({ text }) => joined + text === lines(151));
});

check('survival_kill_9_of_a_busy_terminal_loses_nothing', async (t) => {
  const gate = new Gate(t.atEnd);
  // A part of it each time it may go on, so that every server dies while there is more to come.
  const pty = await t.pty(`i=0; while [ $i -lt 6000 ]; do [ $((i%2000)) = 0 ] && { ${gate.wait}; }; echo "$i é😀"; i=$((i+1)); done; echo end; exec cat`);
  let terminal = await (await t.connect(pty.id)).ready();
  const expected = (count) => [...Array(count).keys()].map((n) => `${n} é😀\r\n`).join('');
  let joined = '';
  for (let count = 2000; count <= 6000; count += 2000) {
    const before = terminal.text.length;
    gate.letPass();
    await terminal.until(({ text }) => text.length > before);
    await t.killServer();
    await terminal.end();
    joined += terminal.text;
    terminal = await (await t.connect(pty.id, { cursor: terminal.cursor })).ready();
    await terminal.until(({ text }) => joined.length + text.length >= expected(count).length);
  }
  await terminal.until(({ text }) => (joined + text).endsWith('end\r\n'));
  assert.ok(joined + terminal.text === `${expected(6000)}end\r\n`);
});

checkInEmptyHome('survival_of_a_shell_command_and_its_session', async (t) => {
  const session = await t.session({ title: 'survivor' });
  const earlier = await t.shell('echo earlier', session);
  const gate = new Gate(t.atEnd);
  const call = t.second.session.shell({ sessionID: session.id, agent: 'build', command: `echo before; ${gate.wait}; echo after; exit 4` });
  const part = async () => data(await t.second.session.messages({ sessionID: session.id })).at(-1).parts[0];
  await eventually('it runs', async () => (await part()).state.metadata?.output === 'before\n');
  await t.killServer();
  await Promise.resolve(call).catch(() => {});
  assert.equal(data(await t.second.session.status())[session.id]?.type, 'busy', 'the next server knows');
  gate.letPass();
  await eventually('its end', async () => (await part()).state.status === 'completed');
  const { state } = await part();
  assert.deepEqual([state.output, state.metadata.exit], ['before\nafter\n', 4]);
  assert.equal(data(await t.second.session.get({ sessionID: session.id })).title, 'survivor');
  const messages = data(await t.second.session.messages({ sessionID: session.id }));
  assert.deepEqual(messages[1].parts[0], earlier);
  await eventually('idle', async () => data(await t.second.session.status())[session.id] === undefined);
});

checkInEmptyHome('survival_abort_reaches_a_command_of_the_server_before', async (t) => {
  const name = mark();
  const session = await t.session();
  const call = t.second.session.shell({ sessionID: session.id, agent: 'build', command: `echo up; sleep 300; : ${name}` });
  await eventually('it runs', async () => (await t.living(name)) > 0);
  await t.killServer();
  await Promise.resolve(call).catch(() => {});
  assert.equal(data(await t.second.session.abort({ sessionID: session.id })), true);
  assert.equal(await t.living(name), 0);
});

check('survival_an_upgrade_closes_sockets_with_a_word', async (t) => {
  const pty = await t.pty('echo up; exec cat');
  const terminal = await (await t.connect(pty.id)).until('up');
  await t.native('POST', '/v1/upgrade', {});
  assert.equal((await terminal.end()).code, 1012);
  const again = await (await t.connect(pty.id, { cursor: terminal.cursor })).ready();
  assert.equal(again.text, '');
  again.send('still\n');
  await again.until('still');
});

check('survival_of_a_delete_that_was_under_way', async (t) => {
  const name = mark();
  const pty = await t.pty(`trap "" HUP TERM; echo up; while :; do sleep 1; done; : ${name}`);
  await t.untilPrinted(pty, 'up');
  assert.equal(data(await t.second.pty.remove({ ptyID: pty.id })), true);
  await t.killServer();
  await eventually('ended all the same', async () => (await t.living(name)) === 0);
  assert.ok(!data(await t.second.v2.pty.list()).data.some(({ id }) => id === pty.id));
});
