// The server is killed or replaced.

import assert from 'node:assert/strict';
import { eventually, uniqueMarker } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { Gate } from '../../_shared/gate.mjs';
import { checkInEmptyHome } from '../empty-home.mjs';
import { data } from '../support.mjs';

check('survival_kill_9_loses_no_output', async (t) => {
  const pty = await t.pty('stty -echo; echo ready; n=0; while read count; do i=0; while [ $i -lt $count ]; do echo "line $n é😀"; n=$((n+1)); i=$((i+1)); done; done');
  const lines = (count) => `ready\r\n${[...Array(count).keys()].map((n) => `line ${n} é😀\r\n`).join('')}`;
  let terminal = await (await t.connect(pty.id)).waitFor('ready');
  let joined = '';
  for (let round = 1; round <= 3; round += 1) {
    terminal.send('50\n');
    await terminal.waitFor(({ text }) => joined + text === lines(round * 50));
    await t.killServer();
    assert.notEqual((await terminal.waitForClose()).code, 1000, 'the client would take 1000 for the exit');
    joined += terminal.text;
    assert.equal(data(await t.sdkV2.pty.get({ ptyID: pty.id })).id, pty.id, 'the same id');
    terminal = await (await t.connect(pty.id, { cursor: terminal.cursor })).ready();
    assert.equal(terminal.text, '', 'and nothing is repeated');
  }
  terminal.send('1\n');
  await terminal.waitFor(({ text }) => joined + text === lines(151));
});

check('survival_kill_9_of_a_busy_terminal_loses_no_output', async (t) => {
  const gate = new Gate(t.cleanUpSteps);
  // Prints one part per release, so that every server is killed before the output is complete.
  const pty = await t.pty(`i=0; while [ $i -lt 6000 ]; do [ $((i%2000)) = 0 ] && { ${gate.waitCommand}; }; echo "$i é😀"; i=$((i+1)); done; echo end; exec cat`);
  let terminal = await (await t.connect(pty.id)).ready();
  const expected = (count) => [...Array(count).keys()].map((n) => `${n} é😀\r\n`).join('');
  let joined = '';
  for (let count = 2000; count <= 6000; count += 2000) {
    const before = terminal.text.length;
    gate.release();
    await terminal.waitFor(({ text }) => text.length > before);
    await t.killServer();
    await terminal.waitForClose();
    joined += terminal.text;
    terminal = await (await t.connect(pty.id, { cursor: terminal.cursor })).ready();
    await terminal.waitFor(({ text }) => joined.length + text.length >= expected(count).length);
  }
  await terminal.waitFor(({ text }) => (joined + text).endsWith('end\r\n'));
  assert.ok(joined + terminal.text === `${expected(6000)}end\r\n`);
});

checkInEmptyHome('survival_shell_command_and_session_continue', async (t) => {
  const session = await t.session({ title: 'survivor' });
  const earlier = await t.shell('echo earlier', session);
  const gate = new Gate(t.cleanUpSteps);
  const call = t.sdkV2.session.shell({ sessionID: session.id, agent: 'build', command: `echo before; ${gate.waitCommand}; echo after; exit 4` });
  const part = async () => data(await t.sdkV2.session.messages({ sessionID: session.id })).at(-1).parts[0];
  await eventually('it runs', async () => (await part()).state.metadata?.output === 'before\n');
  await t.killServer();
  await Promise.resolve(call).catch(() => {});
  assert.equal(data(await t.sdkV2.session.status())[session.id]?.type, 'busy', 'the next server reports busy');
  gate.release();
  await eventually('its exit', async () => (await part()).state.status === 'completed');
  const { state } = await part();
  assert.deepEqual([state.output, state.metadata.exit], ['before\nafter\n', 4]);
  assert.equal(data(await t.sdkV2.session.get({ sessionID: session.id })).title, 'survivor');
  const messages = data(await t.sdkV2.session.messages({ sessionID: session.id }));
  assert.deepEqual(messages[1].parts[0], earlier);
  await eventually('idle', async () => data(await t.sdkV2.session.status())[session.id] === undefined);
});

checkInEmptyHome('survival_abort_reaches_a_command_of_the_previous_server', async (t) => {
  const name = uniqueMarker();
  const session = await t.session();
  const call = t.sdkV2.session.shell({ sessionID: session.id, agent: 'build', command: `echo up; sleep 300; : ${name}` });
  await eventually('it runs', async () => (await t.countProcesses(name)) > 0);
  await t.killServer();
  await Promise.resolve(call).catch(() => {});
  assert.equal(data(await t.sdkV2.session.abort({ sessionID: session.id })), true);
  assert.equal(await t.countProcesses(name), 0);
});

check('survival_upgrade_closes_sockets_with_1012', async (t) => {
  const pty = await t.pty('echo up; exec cat');
  const terminal = await (await t.connect(pty.id)).waitFor('up');
  await t.upgradeServer();
  assert.equal((await terminal.waitForClose()).code, 1012);
  const again = await (await t.connect(pty.id, { cursor: terminal.cursor })).ready();
  assert.equal(again.text, '');
  again.send('still\n');
  await again.waitFor('still');
});

check('survival_delete_in_progress_is_completed', async (t) => {
  const name = uniqueMarker();
  const pty = await t.pty(`trap "" HUP TERM; echo up; while :; do sleep 1; done; : ${name}`);
  await t.waitForOutput(pty, 'up');
  assert.equal(data(await t.sdkV2.pty.remove({ ptyID: pty.id })), true);
  await t.killServer();
  await eventually('the tree is killed', async () => (await t.countProcesses(name)) === 0);
  assert.ok(!data(await t.sdkV2.v2.pty.list()).data.some(({ id }) => id === pty.id));
});
