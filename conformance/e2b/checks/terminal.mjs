// Terminals.

import assert from 'node:assert/strict';
import { expectRejection } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';

check('pty_is_a_terminal_of_the_requested_size', async (t) => {
  const { type, seen, handle } = await t.terminal({ cols: 90, rows: 30 });
  await type('stty size; tty; echo $TERM; exit 4\n');
  await seen.waitFor('30 90\r\n');
  await seen.waitFor('/dev/pts/');
  await seen.waitFor('xterm-256color');
  const error = await expectRejection(handle.wait(), 'CommandExitError');
  assert.equal(error.exitCode, 4);
});

check('update_resizes_and_the_program_sees_it', async (t) => {
  const { sandbox, type, seen, handle } = await t.terminal();
  await type(`trap 'echo "now $(stty size)"' WINCH; echo re''ady\n`);
  await seen.waitFor('ready');
  await sandbox.pty.resize(handle.pid, { cols: 101, rows: 41 });
  await type('\n');
  await seen.waitFor('now 41 101');
  assert.deepEqual([(await t.info(handle.pid)).cols, (await t.info(handle.pid)).rows], [101, 41]);
});

check('update_refuses_invalid_requests', async (t) => {
  const plain = await t.background('sleep 300');
  const { handle } = await t.terminal();
  const update = async (pid, pty) => (await t.call('Update', { process: { pid }, pty })).json;
  assert.match((await update(plain.pid, { size: { cols: 1, rows: 1 } })).message, /error resizing tty/);
  assert.deepEqual(await update(handle.pid, undefined), {}, 'without a size nothing changes');
  // The original truncates them to 16 bits.
  for (const size of [{ cols: 65_616, rows: 24 }, { cols: 0, rows: 24 }, { cols: 80 }]) {
    assert.equal((await update(handle.pid, { size })).code, 'invalid_argument');
  }
  assert.equal((await update(999999, { size: { cols: 1, rows: 1 } })).code, 'not_found');
});

check('pty_interrupt_reaches_the_program', async (t) => {
  const { type, seen } = await t.terminal();
  // Printed by the foreground program: between two commands of a line an interrupt may reach neither.
  await type(`sh -c 'echo st""art; exec sleep 300'\n`);
  await seen.waitFor('start');
  await type('\x03');
  await type('echo af""ter $?\n');
  await seen.waitFor('after 130');
});

// In the original the reader starts before the first subscriber exists.
check('pty_output_includes_the_first_bytes', async (t) => {
  for (let round = 0; round < 20; round += 1) {
    const { events } = await t.collectStream('Start', t.start('/bin/echo', ['first'], { pty: { size: { cols: 80, rows: 24 } } }));
    const bytes = Buffer.concat(events.filter((event) => event.data).map((event) => Buffer.from(event.data.pty, 'base64')));
    assert.equal(bytes.toString(), 'first\r\n');
  }
});

// Regression (e2b-dev/infra#2769).
check('pty_input_after_the_exit_is_not_found', async (t) => {
  const { sandbox, type, handle } = await t.terminal();
  await type('exit\n');
  await handle.wait();
  await expectRejection(sandbox.pty.sendInput(handle.pid, Buffer.from('x')), 'NotFoundError');
  await expectRejection(sandbox.pty.resize(handle.pid, { cols: 1, rows: 1 }), 'NotFoundError');
  assert.equal(await sandbox.pty.kill(handle.pid), false);
});

// Regression (e2b-dev/E2B#1053).
check('pty_reconnect_receives_missed_output', async (t) => {
  const { sandbox, type, seen, handle } = await t.terminal();
  await type('stty -echo; echo re""ady\n');
  await seen.waitFor('ready');
  await handle.disconnect();
  await type('echo me""anwhile\n');
  await t.waitForOutput(handle.pid, 'meanwhile');
  const again = [];
  let first;
  const received = new Promise((resolve) => { first = resolve; });
  const back = await sandbox.pty.connect(handle.pid, { timeoutMs: 0, onData: (bytes) => { again.push(bytes); first(); } });
  await received;
  await type('exit\n');
  await back.wait();
  assert.match(Buffer.concat(again).toString(), /^[^r]*meanwhile/);
});

check('pty_kill_ends_the_tree', async (t) => {
  const { sandbox, type, seen, handle } = await t.terminal();
  const word = `mark${handle.pid}pty`;
  await type(`setsid sh -c "sleep 300; : ${word}" & sh -c "trap '' HUP; sleep 300; : ${word}" & echo r""un\n`);
  await seen.waitFor('run');
  assert.equal(await sandbox.pty.kill(handle.pid), true);
  await t.waitForExit(handle.pid);
  assert.equal(await t.countProcesses(word), 0);
});
