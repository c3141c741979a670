// Terminals, as SandboxAddon has them. The raw socket where it has no say.

import assert from 'node:assert/strict';
import { PATIENCE_MS, eventually, numbers, printNumbers, within } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { Gate } from '../../_shared/pace.mjs';
import { early } from '../early.mjs';
import { PLAIN } from '../support.mjs';

/** A prompt that is no part of what is looked for, and a shell that has begun to read. */
async function shell(t, options) {
  const terminal = t.addon(options);
  await terminal.connected();
  terminal.screen.type("PS1=''; stty -echo; echo re''ady\n");
  await terminal.screen.seen.until('ready');
  return terminal;
}

check('terminal_types_and_shows', async (t) => {
  const { screen, states, sessionId } = await shell(t);
  screen.type('echo $TERM; tty; pwd\n');
  await screen.seen.until('/workspace\r\n');
  assert.match(screen.seen.text(), /xterm-256color\r\n\/dev\/pts\/\d+\r\n/);
  assert.deepEqual(states.map(([state]) => state), ['connecting', 'connected']);
  const { processes } = await t.native('GET', '/v1/processes?tty=true&status=running');
  assert.ok(processes.some(({ tag }) => tag === `cloudflare-pty:${sessionId}`));
});

// There the shell has no controlling terminal.
check('terminal_interrupt_and_job_control', async (t) => {
  const { screen } = await shell(t);
  assert.doesNotMatch(screen.seen.text(), /no job control|cannot set terminal process group/);
  screen.type('sleep 300\n');
  const info = async () => (await t.native('GET', '/v1/processes?tty=true&status=running')).processes.find(({ tag }) => tag?.includes([...t.sessions][0]));
  const { id } = await info();
  // Itself, and not only what is to become it: before that an interrupt may reach nobody.
  await eventually('sleep runs', async () => JSON.stringify((await t.native('GET', `/v1/processes/${id}/tree`)).processes).includes('sleep'));
  screen.type('\x03');
  screen.type('echo status $?\n');
  await screen.seen.until('status 130');
});

check('terminal_resize_is_seen_by_the_program', async (t) => {
  const { screen } = await shell(t, { size: [101, 31] });
  screen.type('stty size\n');
  await screen.seen.until('31 101');
  screen.type(`bash -c 'trap "echo changed \\$(stty size)" WINCH; echo wat""ching; while :; do sleep 0.1; done'\n`);
  await screen.seen.until('watching');
  screen.resize(132, 40);
  await screen.seen.until('changed 40 132');
});

check('terminal_size_at_birth', async (t) => {
  const { bytes, say, told } = await t.socket(`${t.ws}/ws/pty?sessionId=${t.session()}&cols=99&rows=33&${PLAIN}`);
  await told('ready');
  say(Buffer.from('stty size\n'));
  await bytes.until('33 99');
});

check('terminal_replay_comes_before_ready', async (t) => {
  const { screen, sessionId } = await shell(t);
  screen.type('echo from be""fore\n');
  await screen.seen.until('from before');
  const again = await t.socket(`${t.ws}/ws/pty?sessionId=${sessionId}&${PLAIN}`);
  await again.told('ready');
  assert.equal(again.frames[0], 'binary');
  assert.equal(again.frames.at(-1).type, 'ready');
  assert.match(again.bytes.text(), /from before/);
});

check('terminal_reconnect_finds_the_same_shell_and_what_was_missed', async (t) => {
  const { addon, screen, sessionId } = await shell(t);
  screen.type('V=kept; echo pid $$.\n');
  await screen.seen.until('.\r\n');
  const pid = screen.seen.text().match(/pid (\d+)\./)[1];
  const gate = new Gate(t.atEnd);
  screen.type(`(${gate.wait}; echo while you were out) &\n`);
  await screen.seen.until('[1]');
  addon.disconnect();
  assert.equal(addon.state, 'disconnected');
  gate.letPass();
  await eventually('it was printed', async () => {
    const { id } = (await t.native('GET', '/v1/processes?tty=true')).processes.find(({ tag }) => tag === `cloudflare-pty:${sessionId}`);
    const output = await (await fetch(`${t.base}/v1/processes/${id}/output`)).text();
    return output.includes('while you were out');
  });
  addon.connect({ sandboxId: 'any', sessionId });
  await eventually('connected', () => addon.state === 'connected');
  await screen.seen.until('while you were out');
  screen.type('echo again $V $$.\n');
  await screen.seen.until(`again kept ${pid}.`);
});

check('terminal_broken_connection_is_taken_up_again', async (t) => {
  const { addon, screen } = await shell(t);
  screen.type('V=still\n');
  addon.socket.terminate();
  await eventually('it was noticed', () => addon.state !== 'connected');
  await eventually('connected', () => addon.state === 'connected');
  screen.type('echo $V here\n');
  await screen.seen.until('still here');
});

check('terminal_two_viewers_share_it', async (t) => {
  const first = await shell(t);
  const second = t.addon({ sessionId: first.sessionId });
  await second.connected();
  second.screen.type('echo by sec""ond\n');
  await first.screen.seen.until('by second');
  await second.screen.seen.until('by second');
});

check('terminal_sessions_are_apart', async (t) => {
  const [one, two] = await Promise.all([shell(t), shell(t)]);
  one.screen.type('W=1\n');
  two.screen.type('echo "[$W]"\n');
  await two.screen.seen.until('[]');
});

// cloudflare/sandbox-sdk pulls 310 and 765: two at once made two shells, and one was lost.
check('terminal_of_many_at_once_is_one', async (t) => {
  const sessionId = t.session();
  const all = [...Array(8)].map(() => t.addon({ sessionId }));
  await Promise.all(all.map(({ connected }) => connected()));
  all[0].screen.type('echo one for a""ll\n');
  for (const { screen } of all) await screen.seen.until('one for all');
  const { processes } = await t.native('GET', '/v1/processes?tty=true');
  assert.equal(processes.filter(({ tag }) => tag === `cloudflare-pty:${sessionId}`).length, 1);
});

// CoderScreen/coderscreen#26: an endless reconnect to a shell that has ended.
early('terminal_exit_is_told_and_the_addon_comes_to_rest', async (t) => {
  const { addon, screen, states } = await shell(t);
  screen.type('echo last; exit 7\n');
  await eventually('the exit', () => states.some(([, error]) => /Session exited with code 7/.test(error)));
  await eventually('connected again', () => addon.state === 'connected' && states.filter(([state]) => state === 'connecting').length === 2);
  assert.match(screen.seen.text(), /last/);
  await eventually('the exit once more', () => states.filter(([, error]) => /exited with code 7/.test(error)).length === 2);
  const before = states.length;
  // That it does not connect again has no fact to wait for. This is longer than the addon takes between two attempts; on a slow machine the check can
  // only be too kind.
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  assert.equal(states.length, before, 'it rests');
  assert.equal(addon.state, 'connected');
});

check('terminal_exit_by_signal_and_close_code', async (t) => {
  const { say, told, closed, frames } = await t.socket(`${t.ws}/ws/pty?sessionId=${t.session()}&${PLAIN}`);
  await told('ready');
  say(Buffer.from('kill -9 $$\n'));
  assert.equal(await within(PATIENCE_MS, 'the close', closed), 1000);
  const { code, signal } = frames.at(-1);
  assert.deepEqual([frames.at(-1).type, code, signal], ['exit', 137, 'SIGKILL']);
});

check('terminal_of_a_deleted_session_ends_and_begins_anew', async (t) => {
  const { screen, sessionId, addon } = await shell(t);
  screen.type('OLD=1; echo pid $$.\n');
  await screen.seen.until('.\r\n');
  const pid = Number(screen.seen.text().match(/pid (\d+)\./)[1]);
  addon.disconnect();
  assert.equal((await t.post('/api/session/delete', { sessionId })).status, 200);
  await assert.rejects(async () => process.kill(pid, 0), 'its shell is gone');
  addon.connect({ sandboxId: 'any', sessionId });
  await eventually('connected', () => addon.state === 'connected');
  screen.type('echo "[$OLD]"\n');
  await screen.seen.until('[]');
});

check('terminal_begins_with_the_state_of_its_session', async (t) => {
  const sessionId = t.session();
  await t.client().commands.execute('cd /usr; export GREETING="hello there"', sessionId);
  const { screen } = await shell(t, { sessionId });
  screen.type('echo "$GREETING in $PWD"\n');
  await screen.seen.until('hello there in /usr');
});

check('terminal_does_not_wait_for_a_busy_session', async (t) => {
  const sessionId = t.session();
  const gate = new Gate(t.atEnd);
  const busy = t.client().commands.execute(gate.wait, sessionId);
  await gate.arrived();
  await shell(t, { sessionId });
  gate.letPass();
  await busy;
});

check('terminal_of_another_shell', async (t) => {
  const { screen } = await shell(t, { query: '&shell=/bin/sh' });
  screen.type('echo "sh [$BASH_VERSION]" $0\n');
  await screen.seen.until('/bin/sh\r\n');
  const error = await t.socket(`${t.ws}/ws/pty?sessionId=${t.session()}&shell=/no/such/shell`).catch((reason) => reason);
  assert.equal(error.response?.statusCode, 400);
});

check('terminal_frames_that_make_no_sense', async (t) => {
  const { say, told, frames, bytes, socket } = await t.socket(`${t.ws}/ws/pty?sessionId=${t.session()}&${PLAIN}`);
  await told('ready');
  const messages = () => frames.filter(({ type }) => type === 'error').map(({ message }) => message);
  say('nonsense');
  await eventually('an error', () => messages().includes('Invalid control message'));
  for (const size of [{ cols: 0, rows: 5 }, { cols: 5, rows: -1 }, { cols: 70_000, rows: 1 }, {}]) say({ type: 'resize', ...size });
  await eventually('four more', () => messages().filter((text) => text === 'Invalid dimensions: cols and rows must be positive').length === 4);
  say({ type: 'of the future' });
  say(Buffer.from('echo still th""ere\n'));
  await bytes.until('still there');
  assert.equal(messages().length, 5);
  assert.equal(socket.readyState, 1);
});

check('terminal_refusals_are_plain_http', async (t) => {
  const missing = await t.raw('GET', '/ws/pty');
  assert.deepEqual([missing.status, missing.text], [400, 'sessionId query parameter required']);
  for (const query of ['sessionId=a&cols=x', 'sessionId=a&rows=0', 'sessionId=a&cols=99999']) {
    assert.equal((await t.raw('GET', `/ws/pty?${query}`)).status, 400, query);
  }
  assert.match((await t.raw('GET', '/ws/pty?sessionId=a')).text, /upgrade/i);
});

check('terminal_input_before_ready_is_taken', async (t) => {
  const { socket, bytes } = await t.socket(`${t.ws}/ws/pty?sessionId=${t.session()}&${PLAIN}`);
  socket.send(Buffer.from('echo ea""rly\n'));
  await bytes.until('early');
});

check('terminal_large_paste_arrives_whole', async (t) => {
  const { screen } = await shell(t);
  const lines = 3_000;
  screen.type(`cat > /tmp/paste-$$; md5sum < /tmp/paste-$$; wc -l < /tmp/paste-$$; rm /tmp/paste-$$\n`);
  screen.type([...Array(lines).keys()].map((n) => `line ${n} of what was pasted, which is longer than one frame\n`).join(''));
  screen.type('\x04');
  await screen.seen.until(`${lines}\r\n`);
});

check('terminal_23_megabytes_exactly', async (t) => {
  const { screen } = await shell(t);
  const length = 23_000_000;
  screen.type(`stty -onlcr; printf 'be''gin:'; ${printNumbers(length)}; printf ':e''nd'\n`);
  await eventually('the end', () => screen.seen.length > length && screen.seen.all().subarray(-20).toString().includes(':end'));
  const all = screen.seen.all();
  const from = all.indexOf('begin:') + 'begin:'.length;
  assert.ok(all.subarray(from, from + length).equals(numbers(length)));
});

early('terminal_stalled_viewer_stops_nobody', async (t) => {
  const { screen, sessionId } = await shell(t);
  const stalled = await t.socket(`${t.ws}/ws/pty?sessionId=${sessionId}&${PLAIN}`, { reads: false });
  const other = await shell(t);
  screen.type(`stty -onlcr; ${printNumbers(30_000_000)}; printf ':do''ne'\n`);
  other.screen.type('echo other li""ves\n');
  await other.screen.seen.until('other lives');
  // In parts, each with a patience of its own: the program waits for the stalled one for a while.
  for (const part of [10_000_000, 20_000_000, 30_000_000]) await eventually(`${part} bytes, in spite of the other`, () => screen.seen.length > part);
  await eventually('the end', () => screen.seen.all().subarray(-40).toString().includes(':done'));
  stalled.socket.terminate();
}, { seconds: 120 });
