// The socket of a terminal: input, output, exit, several clients.

import assert from 'node:assert/strict';
import { check } from '../../_shared/runner.mjs';
import { nativeId, withTerminalNewlines } from '../support.mjs';

check('socket_accepts_input_and_shows_output', async (t) => {
  const pty = await t.pty('stty -echo; echo ready; while read line; do echo "got $line"; done; echo bye');
  const terminal = await t.connect(pty.id);
  await terminal.waitFor('ready');
  terminal.send('one\n');
  await terminal.waitFor('got one\r\n');
  terminal.send(Buffer.from('two é\n'));
  await terminal.waitFor('got two é\r\n');
  terminal.send(Buffer.from([0xff, 0xfe, 0x0a]));
  terminal.send('three\n');
  await terminal.waitFor('got three\r\n');
  assert.ok(!terminal.text.includes('\ufffd'), 'invalid input bytes are dropped');
  terminal.send('\x04');
  await terminal.waitFor('bye');
  assert.equal((await terminal.waitForClose()).code, 1000);
});

check('socket_input_interrupts_the_program', async (t) => {
  const pty = await t.pty(`trap 'echo interrupted; exit 5' INT; echo ready; while :; do sleep 0.05; done`);
  const terminal = await t.connect(pty.id);
  await terminal.waitFor('ready');
  terminal.send('\x03');
  await terminal.waitFor('interrupted');
  assert.equal((await terminal.waitForClose()).code, 1000);
  assert.equal((await t.native('GET', `/v1/processes/${nativeId(pty.id)}`)).exitCode, 5);
});

check('socket_sends_the_cursor_once_after_the_replay', async (t) => {
  const pty = await t.pty('printf before; head -n 1 >/dev/null; printf after; exec cat');
  await t.waitForOutput(pty, 'before');
  const terminal = await (await t.connect(pty.id)).ready();
  assert.deepEqual([terminal.text, terminal.controls], ['before', [{ cursor: 6, after: 6 }]]);
  terminal.send('\n');
  await terminal.waitFor('after');
  assert.equal(terminal.controls.length, 1);
  assert.equal(terminal.cursor, terminal.text.length);
});

check('socket_accepts_a_megabyte_in_one_frame', async (t) => {
  const size = 1_000_000;
  const pty = await t.pty(`stty raw -echo; echo ready; head -c ${size} | cksum; exec cat`);
  const terminal = await t.connect(pty.id);
  await terminal.waitFor('ready');
  terminal.send('0123456789'.repeat(size / 10));
  const { stdout } = await t.native('POST', '/v1/processes/run', { command: `yes 0123456789 | tr -d '\\n' | head -c ${size} | cksum`, shell: true });
  await terminal.waitFor(stdout.trim());
});

check('socket_negotiates_nothing_and_answers_pings', async (t) => {
  const pty = await t.pty('exec cat');
  const terminal = await (await t.connect(pty.id)).ready();
  assert.deepEqual([terminal.socket.extensions, terminal.socket.protocol], ['', '']);
  const pong = new Promise((resolve) => terminal.socket.once('pong', (bytes) => resolve(String(bytes))));
  terminal.socket.ping('are you there');
  assert.equal(await pong, 'are you there');
});

check('socket_nul_bytes_are_output', async (t) => {
  const pty = await t.pty(`printf 'a\\000{"cursor":9}\\000b'; exec cat`);
  await t.waitForOutput(pty, 'b');
  const terminal = await (await t.connect(pty.id)).ready();
  assert.equal(terminal.text, 'a\0{"cursor":9}\0b');
  assert.equal(terminal.controls[0].cursor, 16);
});

check('socket_is_shared_by_two_clients', async (t) => {
  const pty = await t.pty('stty -echo; echo ready; exec cat');
  const [one, two] = [await t.connect(pty.id), await t.connect(pty.id)];
  await Promise.all([one.waitFor('ready'), two.waitFor('ready')]);
  one.send('from one\n');
  await Promise.all([one.waitFor('from one'), two.waitFor('from one')]);
  two.send('from two\n');
  await Promise.all([one.waitFor('from two'), two.waitFor('from two')]);
  assert.equal(one.text, two.text);
});

check('socket_of_an_unknown_terminal_is_404_and_a_plain_get_is_400', async (t) => {
  await assert.rejects(t.socket('pty_unknown').opened, { status: 404 });
  await assert.rejects(t.socket('unknown').opened, { status: 400 });
  const pty = await t.pty('exec cat');
  const plain = await t.sdkV1.pty.connect({ path: { id: pty.id } });
  assert.equal(plain.error.name, 'BadRequest');
});

// The original responds with 404 on one API and closes with 4404 on the other.
check('beyond_output_after_the_exit_can_be_read', async (t) => {
  const pty = await t.pty('echo last words; exit 4');
  await t.waitForExit(pty);
  for (const surface of ['', '/api']) {
    const terminal = await t.connect(pty.id, { surface });
    assert.equal((await terminal.waitForClose()).code, 1000);
    assert.equal(terminal.text, 'last words\r\n');
    assert.deepEqual(terminal.controls, [{ cursor: 12, after: 12 }]);
    const again = await t.connect(pty.id, { surface, cursor: 12 });
    assert.equal((await again.waitForClose()).code, 1000);
    assert.equal(again.text, '');
  }
});

check('socket_output_of_24_megabytes_is_exact', async (t) => {
  const pty = await t.pty('head -n 1 >/dev/null; seq 1 3000000; echo end');
  const terminal = await (await t.connect(pty.id)).ready();
  terminal.send('\n');
  await terminal.closed;
  const expected = `${Array.from({ length: 3_000_000 }, (_, n) => n + 1).join('\r\n')}\r\nend\r\n`;
  assert.ok(terminal.text.endsWith(expected), `${terminal.text.length} of ${expected.length}`);
  assert.equal(withTerminalNewlines('\n') + expected, terminal.text);
  assert.equal(terminal.cursor, terminal.text.length);
}, { seconds: 120 });
