// The socket of a terminal: both directions, its end, several at once.

import assert from 'node:assert/strict';
import { check } from '../../_shared/frame.mjs';
import { nativeId, onTerminal } from '../support.mjs';

check('socket_types_and_shows', async (t) => {
  const pty = await t.pty('stty -echo; echo ready; while read line; do echo "got $line"; done; echo bye');
  const terminal = await t.connect(pty.id);
  await terminal.until('ready');
  terminal.send('one\n');
  await terminal.until('got one\r\n');
  terminal.send(Buffer.from('two é\n'));
  await terminal.until('got two é\r\n');
  terminal.send(Buffer.from([0xff, 0xfe, 0x0a]));
  terminal.send('three\n');
  await terminal.until('got three\r\n');
  assert.ok(!terminal.text.includes('\ufffd'), 'bytes that are no text are dropped');
  terminal.send('\x04');
  await terminal.until('bye');
  assert.equal((await terminal.end()).code, 1000);
});

check('socket_interrupts', async (t) => {
  const pty = await t.pty(`trap 'echo interrupted; exit 5' INT; echo ready; while :; do sleep 0.05; done`);
  const terminal = await t.connect(pty.id);
  await terminal.until('ready');
  terminal.send('\x03');
  await terminal.until('interrupted');
  assert.equal((await terminal.end()).code, 1000);
  assert.equal((await t.native('GET', `/v1/processes/${nativeId(pty.id)}`)).exitCode, 5);
});

check('socket_says_the_place_once_after_the_replay', async (t) => {
  const pty = await t.pty('printf before; head -n 1 >/dev/null; printf after; exec cat');
  await t.untilPrinted(pty, 'before');
  const terminal = await (await t.connect(pty.id)).ready();
  assert.deepEqual([terminal.text, terminal.controls], ['before', [{ cursor: 6, after: 6 }]]);
  terminal.send('\n');
  await terminal.until('after');
  assert.equal(terminal.controls.length, 1);
  assert.equal(terminal.cursor, terminal.text.length);
});

check('socket_takes_a_megabyte_in_one_frame', async (t) => {
  const size = 1_000_000;
  const pty = await t.pty(`stty raw -echo; echo ready; head -c ${size} | cksum; exec cat`);
  const terminal = await t.connect(pty.id);
  await terminal.until('ready');
  terminal.send('0123456789'.repeat(size / 10));
  const { stdout } = await t.native('POST', '/v1/processes/run', { command: `yes 0123456789 | tr -d '\\n' | head -c ${size} | cksum`, shell: true });
  await terminal.until(stdout.trim());
});

check('socket_negotiates_nothing_and_answers_pings', async (t) => {
  const pty = await t.pty('exec cat');
  const terminal = await (await t.connect(pty.id)).ready();
  assert.deepEqual([terminal.socket.extensions, terminal.socket.protocol], ['', '']);
  const pong = new Promise((resolve) => terminal.socket.once('pong', (bytes) => resolve(String(bytes))));
  terminal.socket.ping('are you there');
  assert.equal(await pong, 'are you there');
});

check('socket_nul_is_output_and_no_control', async (t) => {
  const pty = await t.pty(`printf 'a\\000{"cursor":9}\\000b'; exec cat`);
  await t.untilPrinted(pty, 'b');
  const terminal = await (await t.connect(pty.id)).ready();
  assert.equal(terminal.text, 'a\0{"cursor":9}\0b');
  assert.equal(terminal.controls[0].cursor, 16);
});

check('socket_two_clients_see_and_type_the_same', async (t) => {
  const pty = await t.pty('stty -echo; echo ready; exec cat');
  const [one, two] = [await t.connect(pty.id), await t.connect(pty.id)];
  await Promise.all([one.until('ready'), two.until('ready')]);
  one.send('from one\n');
  await Promise.all([one.until('from one'), two.until('from one')]);
  two.send('from two\n');
  await Promise.all([one.until('from two'), two.until('from two')]);
  assert.equal(one.text, two.text);
});

check('socket_of_nobody_is_404_and_a_plain_get_is_400', async (t) => {
  await assert.rejects(t.socket('pty_nobody').opened, { status: 404 });
  await assert.rejects(t.socket('nobody').opened, { status: 400 });
  const pty = await t.pty('exec cat');
  const plain = await t.first.pty.connect({ path: { id: pty.id } });
  assert.equal(plain.error.name, 'BadRequest');
});

// There: 404 on one API, 4404 on the other.
check('beyond_output_after_the_exit_can_be_read', async (t) => {
  const pty = await t.pty('echo last words; exit 4');
  await t.untilExited(pty);
  for (const surface of ['', '/api']) {
    const terminal = await t.connect(pty.id, { surface });
    assert.equal((await terminal.end()).code, 1000);
    assert.equal(terminal.text, 'last words\r\n');
    assert.deepEqual(terminal.controls, [{ cursor: 12, after: 12 }]);
    const again = await t.connect(pty.id, { surface, cursor: 12 });
    assert.equal((await again.end()).code, 1000);
    assert.equal(again.text, '');
  }
});

check('socket_24_megabytes_are_exact', async (t) => {
  const pty = await t.pty('head -n 1 >/dev/null; seq 1 3000000; echo end');
  const terminal = await (await t.connect(pty.id)).ready();
  terminal.send('\n');
  await terminal.closed;
  const expected = `${Array.from({ length: 3_000_000 }, (_, n) => n + 1).join('\r\n')}\r\nend\r\n`;
  assert.ok(terminal.text.endsWith(expected), `${terminal.text.length} of ${expected.length}`);
  assert.equal(onTerminal('\n') + expected, terminal.text);
  assert.equal(terminal.cursor, terminal.text.length);
}, { seconds: 120 });
