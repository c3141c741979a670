// connectProcessTerminal, resizeProcessTerminal. Large volumes are in volume.mjs.

import assert from 'node:assert/strict';
import { TIMEOUT_MS, withTimeout } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { median, expectProblem, assertSameBytes } from '../support.mjs';

const text = (string) => Buffer.from(string);

/** A terminal process that has printed `up` and reads its input. */
async function startUp(t, script, options) {
  const info = await t.startShell(script, { tty: true, ...options });
  await t.waitForLog(info.id, 'up\r\n');
  return info;
}

const ECHO = 'stty -echo; echo up; exec cat';
const SIZES = 'stty -echo; echo up; while read line; do stty size; done';

check('terminal_sends_ready_first', async (t) => {
  const { id } = await startUp(t, ECHO);
  const terminal = await t.attach(id);
  assert.equal(terminal.shape[0], 'ready');
  const { type, processId } = terminal.texts[0];
  assert.deepEqual([type, processId], ['ready', id]);
});

check('terminal_output_and_exit_are_exact', async (t) => {
  const { id } = await t.startShell('read line; echo "got $line"; exit 5', { tty: true });
  const terminal = await t.attach(id);
  terminal.send('hi\n');
  const exit = await terminal.end();
  assert.equal(exit.exitCode, 5);
  assertSameBytes(terminal.bytes.buffer(), text('hi\r\ngot hi\r\n'), 'terminal');
  assertSameBytes(await t.logBytes(id), text('hi\r\ngot hi\r\n'), 'logs');
});

check('terminal_exit_is_the_last_frame', async (t) => {
  const { id } = await t.startShell('read line; seq 1 20000; exit 6', { tty: true });
  const terminal = await t.attach(id);
  terminal.send('\n');
  await terminal.end();
  assert.deepEqual(terminal.shape, ['ready', 'bytes', 'exit', 'close']);
  assert.equal(terminal.texts.at(-1).exitCode, 6);
  assert.ok([1000, 1005].includes(terminal.socket.frames.at(-1).code), 'a clean close');
  assert.match(terminal.bytes.text(), /\n19999\r\n20000\r\n/);
});

check('terminal_death_by_signal_has_a_null_exit_code', async (t) => {
  const { id } = await startUp(t, ECHO);
  const terminal = await t.attach(id);
  await t.agent.killProcess(id);
  assert.equal((await terminal.end()).exitCode, null);
});

check('terminal_of_an_exited_process_reports_the_exit', async (t) => {
  const { id } = await t.startShell('exit 8', { tty: true });
  await t.waitForExit(id);
  const terminal = t.openTerminal(id);
  assert.equal((await terminal.end()).exitCode, 8);
  assert.deepEqual(terminal.shape, ['ready', 'exit', 'close']);
});

check('terminal_exit_is_reported_at_once', async (t) => {
  // A server that polls every 150 ms is 75 ms late on average. The latency is printed but not asserted, because it
  // depends on the load of the machine.
  const delays = [];
  for (let i = 0; i < 11; i += 1) {
    const { id } = await t.startShell('read line; printf bye', { tty: true });
    const terminal = await t.attach(id);
    terminal.send('\n');
    await terminal.end();
    const { frames } = terminal.socket;
    const exit = frames.find(({ kind }) => kind === 'exit');
    delays.push(exit.atMs - frames.findLast(({ kind }) => kind === 'bytes').atMs);
  }
  console.log(`# exit: ${median(delays).toFixed(1)} ms after the last byte (median)`);
});

check('terminal_starts_with_80x24', async (t) => {
  const { id } = await startUp(t, SIZES);
  const terminal = await t.attach(id);
  terminal.send('\n');
  await terminal.bytes.waitForText('\r\n');
  assert.equal(terminal.bytes.text(), '24 80\r\n');
});

check('terminal_resize_works_over_the_socket', async (t) => {
  const { id } = await startUp(t, SIZES);
  const terminal = await t.attach(id);
  terminal.session.resize({ cols: 132, rows: 43 });
  terminal.send('\n');
  await terminal.bytes.waitForText('\r\n');
  assert.equal(terminal.bytes.text(), '43 132\r\n');
});

check('terminal_resize_works_over_rest', async (t) => {
  const { id } = await startUp(t, SIZES);
  const terminal = await t.attach(id);
  assert.deepEqual(await t.agent.resizeProcessTerminal(id, { cols: 99, rows: 11 }), { cols: 99, rows: 11 });
  terminal.send('\n');
  await terminal.bytes.waitForText('\r\n');
  assert.equal(terminal.bytes.text(), '11 99\r\n');
});

check('terminal_resize_signals_the_program', async (t) => {
  const { id } = await startUp(t, 'trap "stty size" WINCH; echo up; while :; do sleep 0.05; done');
  const terminal = await t.attach(id);
  await t.agent.resizeProcessTerminal(id, { cols: 101, rows: 31 });
  await terminal.bytes.waitForText('31 101\r\n');
  terminal.session.resize({ cols: 102, rows: 32 });
  await terminal.bytes.waitForText('32 102\r\n');
});

check('terminal_resize_requires_a_running_terminal', async (t) => {
  const size = { cols: 80, rows: 24 };
  const pipe = await t.start({ command: 'sleep', args: ['300'] });
  await expectProblem(t.agent.resizeProcessTerminal(pipe.id, size), 409, { type: 'conflict' });
  const done = await t.start({ command: 'true', tty: true });
  await t.waitForExit(done.id);
  await expectProblem(t.agent.resizeProcessTerminal(done.id, size), 409, { type: 'conflict' });
});

check('terminal_ctrl_c_interrupts', async (t) => {
  const { id } = await startUp(t, 'trap "echo interrupted; exit 9" INT; echo up; while :; do sleep 0.05; done');
  const terminal = await t.attach(id);
  terminal.send('\x03');
  assert.equal((await terminal.end()).exitCode, 9);
  assert.match(terminal.bytes.text(), /interrupted\r\n/);
});

check('terminal_ctrl_d_is_end_of_file', async (t) => {
  const { id } = await startUp(t, 'echo up; cat; exit 4');
  const terminal = await t.attach(id);
  terminal.send('\x04');
  assert.equal((await terminal.end()).exitCode, 4);
});

check('terminal_accepts_binary_input', async (t) => {
  const all = Uint8Array.from({ length: 256 }, (_, i) => i);
  const { id } = await t.startShell('stty raw -echo; echo raw; exec cat', { tty: true });
  await t.waitForLog(id, 'raw\n');
  const terminal = await t.attach(id);
  // The three forms that the SDK accepts.
  terminal.send(all);
  terminal.send(all.buffer);
  terminal.send(new DataView(all.buffer));
  await terminal.bytes.waitForLength(768);
  assertSameBytes(terminal.bytes.buffer(), Buffer.concat([all, all, all]));
});

check('terminal_accepts_unicode_input', async (t) => {
  const { id } = await startUp(t, ECHO);
  const terminal = await t.attach(id);
  terminal.send('naïve 日本 🙂\n');
  await terminal.bytes.waitForText('\r\n');
  assert.equal(terminal.bytes.text(), 'naïve 日本 🙂\r\n');
});

check('terminal_erases_whole_characters', async (t) => {
  // The kernel edits the line, so it must know that the terminal uses UTF-8 (IUTF8).
  const { id } = await startUp(t, 'stty -echo; echo up; read line; printf "[%s]" "$line"');
  const terminal = await t.attach(id);
  terminal.send('aé\x7fb\n');
  await terminal.bytes.waitForText(']');
  assert.equal(terminal.bytes.buffer().subarray(0, 4).toString('latin1'), '[ab]');
});

check('terminal_has_a_TERM', async (t) => {
  const { id } = await t.startShell('printf "<%s>" "$TERM"; read line', { tty: true });
  const { bytes } = await t.follow(id);
  await bytes.waitForText('>');
  assert.equal(bytes.text(), '<xterm-256color>');
});

check('terminal_is_the_controlling_terminal', async (t) => {
  const { id } = await t.startShell('echo mine > /dev/tty; test -t 0 -a -t 1 -a -t 2 && echo all; read line', { tty: true });
  const { bytes } = await t.follow(id);
  await bytes.waitForText('all\r\n');
  assert.equal(bytes.text(), 'mine\r\nall\r\n');
});

check('terminal_bad_frames_get_an_error_frame', async (t) => {
  const { id } = await startUp(t, ECHO);
  const terminal = await t.attach(id);
  const bad = [
    'not json',
    '{"type":"dance"}',
    '{"type":"input"}',
    '{"type":"input","data":"***","encoding":"base64"}',
    '{"type":"input","data":"x","encoding":"rot13"}',
    '{"type":"resize","cols":70000,"rows":1}',
    '[]',
    Buffer.from('binary'),
  ];
  for (const [i, frame] of bad.entries()) {
    terminal.socket.send(frame);
    const error = await terminal.waitForErrors(i + 1);
    assert.equal(error.type, 'error', `reply to ${frame}: ${error}`);
    assert.ok(error.message.length > 0);
  }
  // The connection and the process still work.
  terminal.send('still here\n');
  await terminal.bytes.waitForText('\r\n');
  assert.equal(terminal.bytes.text(), 'still here\r\n');
});

check('terminal_input_size_limit_is_enforced', async (t) => {
  const { id } = await startUp(t, ECHO);
  await t.changeLimits({ maxInputBytesPerRequest: 8 });
  const terminal = await t.attach(id);
  terminal.send('123456789\n');
  const error = await terminal.waitForErrors();
  assert.match(error.message, /maxInputBytesPerRequest/);
  terminal.send('1234567\n');
  await terminal.bytes.waitForText('\r\n');
  assert.equal(terminal.bytes.text(), '1234567\r\n');
});

check('terminal_serves_two_clients', async (t) => {
  const { id } = await startUp(t, ECHO);
  const clients = [await t.attach(id), await t.attach(id)];
  clients[0].send('from one\n');
  await Promise.all(clients.map(({ bytes }) => bytes.waitForText('from one\r\n')));
  clients[1].send('from two\n');
  await Promise.all(clients.map(({ bytes }) => bytes.waitForText('from two\r\n')));
  for (const { bytes } of clients) assert.equal(bytes.text(), 'from one\r\nfrom two\r\n');
  await t.agent.killProcess(id);
  await Promise.all(clients.map((client) => client.end()));
});

check('terminal_close_leaves_the_process_running', async (t) => {
  const { id, pid } = await startUp(t, ECHO);
  const closing = await t.attach(id);
  closing.session.close();
  await withTimeout(TIMEOUT_MS, 'closed', closing.closed);
  const terminating = await t.attach(id);
  terminating.socket.terminate();
  await withTimeout(TIMEOUT_MS, 'closed', terminating.closed);
  const info = await t.agent.getProcess(id);
  assert.deepEqual([info.status, info.pid], ['running', pid]);
});

check('terminal_reattach_works_through_logs', async (t) => {
  const { id } = await startUp(t, ECHO);
  const first = await t.attach(id);
  first.send('one\n');
  await first.bytes.waitForText('one\r\n');
  first.session.close();
  await first.closed;

  const { entries } = await t.agent.getProcessLogs(id);
  const since = entries.at(-1).sequence;
  await t.agent.sendProcessInput(id, { data: 'two\n', encoding: 'utf8' });
  await t.waitFor('the log has it', async () => (await t.logBytes(id, { since })).toString() === 'two\r\n');

  const second = await t.attach(id);
  second.send('three\n');
  await second.bytes.waitForText('three\r\n');
  // The socket starts with new output, so that a client that also loads the log sees nothing twice.
  assert.equal(second.bytes.text(), 'three\r\n');
  assert.equal((await t.logBytes(id)).toString(), 'up\r\none\r\ntwo\r\nthree\r\n');
});

check('terminal_refuses_before_the_upgrade', async (t) => {
  const headers = t.token ? { authorization: `Bearer ${t.token}` } : {};
  const pipe = await t.start({ command: 'sleep', args: ['300'] });
  const tty = await t.start({ command: 'sleep', args: ['300'], tty: true });
  assert.equal(await t.upgradeStatus('/v1/processes/proc_unknown/terminal/ws', headers), 404);
  assert.equal(await t.upgradeStatus(`/v1/processes/${pipe.id}/terminal/ws`, headers), 409);
  assert.equal((await t.raw('GET', `/v1/processes/${tty.id}/terminal/ws`)).status, 400);
  assert.equal(await t.upgradeStatus(`/v1/processes/${tty.id}/terminal/ws`, headers), 101);
  // The SDK reports a refusal as an error, and then as a close.
  const session = t.openTerminal(pipe.id);
  await withTimeout(TIMEOUT_MS, 'closed', session.closed);
  assert.equal(session.errors.length, 1);
});
