// Terminals with SandboxAddon; raw sockets where it has no call.

import assert from 'node:assert/strict';
import { TIMEOUT_MS, eventually, numbers, printNumbers, withTimeout } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { Gate } from '../../_shared/gate.mjs';
import { checkConcurrently } from '../concurrent.mjs';
import { PLAIN_SHELL_QUERY } from '../support.mjs';

/** A shell with an empty prompt that reads its input. */
async function shell(t, options) {
  const terminal = t.addon(options);
  await terminal.connected();
  terminal.screen.type("PS1=''; stty -echo; echo re''ady\n");
  await terminal.screen.seen.waitFor('ready');
  return terminal;
}

check('terminal_accepts_input_and_shows_output', async (t) => {
  const { screen, states, sessionId } = await shell(t);
  screen.type('echo $TERM; tty; pwd\n');
  await screen.seen.waitFor('/workspace\r\n');
  assert.match(screen.seen.text(), /xterm-256color\r\n\/dev\/pts\/\d+\r\n/);
  assert.deepEqual(states.map(([state]) => state), ['connecting', 'connected']);
  const { processes } = await t.native('GET', '/v1/processes?tty=true&status=running');
  assert.ok(processes.some(({ tag }) => tag === `cloudflare-pty:${sessionId}`));
});

// The original's shell has no controlling terminal.
check('terminal_has_interrupt_and_job_control', async (t) => {
  const { screen } = await shell(t);
  assert.doesNotMatch(screen.seen.text(), /no job control|cannot set terminal process group/);
  screen.type('sleep 300\n');
  const info = async () => (await t.native('GET', '/v1/processes?tty=true&status=running')).processes.find(({ tag }) => tag?.includes([...t.sessions][0]));
  const { id } = await info();
  // Waits for the program itself. Before its exec, an interrupt may reach no process.
  await eventually('sleep runs', async () => JSON.stringify((await t.native('GET', `/v1/processes/${id}/tree`)).processes).includes('sleep'));
  screen.type('\x03');
  screen.type('echo status $?\n');
  await screen.seen.waitFor('status 130');
});

check('terminal_resize_is_seen_by_the_program', async (t) => {
  const { screen } = await shell(t, { size: [101, 31] });
  screen.type('stty size\n');
  await screen.seen.waitFor('31 101');
  screen.type(`bash -c 'trap "echo changed \\$(stty size)" WINCH; echo wat""ching; while :; do sleep 0.1; done'\n`);
  await screen.seen.waitFor('watching');
  screen.resize(132, 40);
  await screen.seen.waitFor('changed 40 132');
});

check('terminal_starts_with_the_size_of_the_query', async (t) => {
  const { bytes, send, waitForFrame } = await t.socket(`${t.ws}/ws/pty?sessionId=${t.session()}&cols=99&rows=33&${PLAIN_SHELL_QUERY}`);
  await waitForFrame('ready');
  send(Buffer.from('stty size\n'));
  await bytes.waitFor('33 99');
});

check('terminal_replay_comes_before_ready', async (t) => {
  const { screen, sessionId } = await shell(t);
  screen.type('echo from be""fore\n');
  await screen.seen.waitFor('from before');
  const again = await t.socket(`${t.ws}/ws/pty?sessionId=${sessionId}&${PLAIN_SHELL_QUERY}`);
  await again.waitForFrame('ready');
  assert.equal(again.frames[0], 'binary');
  assert.equal(again.frames.at(-1).type, 'ready');
  assert.match(again.bytes.text(), /from before/);
});

check('terminal_reconnect_attaches_to_the_same_shell_and_replays_missed_output', async (t) => {
  const { addon, screen, sessionId } = await shell(t);
  screen.type('V=kept; echo pid $$.\n');
  await screen.seen.waitFor('.\r\n');
  const pid = screen.seen.text().match(/pid (\d+)\./)[1];
  const gate = new Gate(t.cleanUpSteps);
  screen.type(`(${gate.waitCommand}; echo while you were out) &\n`);
  await screen.seen.waitFor('[1]');
  addon.disconnect();
  assert.equal(addon.state, 'disconnected');
  gate.release();
  await eventually('it was printed', async () => {
    const { id } = (await t.native('GET', '/v1/processes?tty=true')).processes.find(({ tag }) => tag === `cloudflare-pty:${sessionId}`);
    const output = await (await fetch(`${t.base}/v1/processes/${id}/output`)).text();
    return output.includes('while you were out');
  });
  addon.connect({ sandboxId: 'any', sessionId });
  await eventually('connected', () => addon.state === 'connected');
  await screen.seen.waitFor('while you were out');
  screen.type('echo again $V $$.\n');
  await screen.seen.waitFor(`again kept ${pid}.`);
});

check('terminal_addon_reconnects_after_a_broken_connection', async (t) => {
  const { addon, screen } = await shell(t);
  screen.type('V=still\n');
  addon.socket.terminate();
  await eventually('the addon has noticed it', () => addon.state !== 'connected');
  await eventually('connected', () => addon.state === 'connected');
  screen.type('echo $V here\n');
  await screen.seen.waitFor('still here');
});

check('terminal_is_shared_by_two_clients', async (t) => {
  const first = await shell(t);
  const second = t.addon({ sessionId: first.sessionId });
  await second.connected();
  second.screen.type('echo by sec""ond\n');
  await first.screen.seen.waitFor('by second');
  await second.screen.seen.waitFor('by second');
});

check('terminals_of_different_sessions_are_separate', async (t) => {
  const [one, two] = await Promise.all([shell(t), shell(t)]);
  one.screen.type('W=1\n');
  two.screen.type('echo "[$W]"\n');
  await two.screen.seen.waitFor('[]');
});

// Regression (cloudflare/sandbox-sdk pulls 310 and 765): two concurrent clients start two shells and one is lost.
check('terminal_of_a_session_is_started_once_for_concurrent_clients', async (t) => {
  const sessionId = t.session();
  const all = [...Array(8)].map(() => t.addon({ sessionId }));
  await Promise.all(all.map(({ connected }) => connected()));
  all[0].screen.type('echo one for a""ll\n');
  for (const { screen } of all) await screen.seen.waitFor('one for all');
  const { processes } = await t.native('GET', '/v1/processes?tty=true');
  assert.equal(processes.filter(({ tag }) => tag === `cloudflare-pty:${sessionId}`).length, 1);
});

// Regression (CoderScreen/coderscreen#26): endless reconnects to a shell that has exited.
checkConcurrently('terminal_exit_is_reported_and_the_addon_stops_reconnecting', async (t) => {
  const { addon, screen, states } = await shell(t);
  screen.type('echo last; exit 7\n');
  await eventually('the exit', () => states.some(([, error]) => /Session exited with code 7/.test(error)));
  await eventually('connected again', () => addon.state === 'connected' && states.filter(([state]) => state === 'connecting').length === 2);
  assert.match(screen.seen.text(), /last/);
  await eventually('the exit a second time', () => states.filter(([, error]) => /exited with code 7/.test(error)).length === 2);
  const before = states.length;
  // No event shows that the addon does not reconnect. This pause is longer than its reconnect delay; on a slow machine
  // the check
  // may miss a reconnect.
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  assert.equal(states.length, before, 'the addon does not reconnect');
  assert.equal(addon.state, 'connected');
});

check('terminal_death_by_signal_is_reported_and_closes_with_1000', async (t) => {
  const { send, waitForFrame, closed, frames } = await t.socket(`${t.ws}/ws/pty?sessionId=${t.session()}&${PLAIN_SHELL_QUERY}`);
  await waitForFrame('ready');
  send(Buffer.from('kill -9 $$\n'));
  assert.equal(await withTimeout(TIMEOUT_MS, 'the close', closed), 1000);
  const { code, signal } = frames.at(-1);
  assert.deepEqual([frames.at(-1).type, code, signal], ['exit', 137, 'SIGKILL']);
});

check('terminal_of_a_deleted_session_ends_and_the_next_is_new', async (t) => {
  const { screen, sessionId, addon } = await shell(t);
  screen.type('OLD=1; echo pid $$.\n');
  await screen.seen.waitFor('.\r\n');
  const pid = Number(screen.seen.text().match(/pid (\d+)\./)[1]);
  addon.disconnect();
  assert.equal((await t.post('/api/session/delete', { sessionId })).status, 200);
  await assert.rejects(async () => process.kill(pid, 0), 'its shell no longer runs');
  addon.connect({ sandboxId: 'any', sessionId });
  await eventually('connected', () => addon.state === 'connected');
  screen.type('echo "[$OLD]"\n');
  await screen.seen.waitFor('[]');
});

check('terminal_starts_with_the_state_of_its_session', async (t) => {
  const sessionId = t.session();
  await t.client().commands.execute('cd /usr; export GREETING="hello there"', sessionId);
  const { screen } = await shell(t, { sessionId });
  screen.type('echo "$GREETING in $PWD"\n');
  await screen.seen.waitFor('hello there in /usr');
});

check('terminal_does_not_wait_for_a_busy_session', async (t) => {
  const sessionId = t.session();
  const gate = new Gate(t.cleanUpSteps);
  const busy = t.client().commands.execute(gate.waitCommand, sessionId);
  await gate.waitForArrivals();
  await shell(t, { sessionId });
  gate.release();
  await busy;
});

check('terminal_runs_the_shell_of_the_query', async (t) => {
  const { screen } = await shell(t, { query: '&shell=/bin/sh' });
  screen.type('echo "sh [$BASH_VERSION]" $0\n');
  await screen.seen.waitFor('/bin/sh\r\n');
  const error = await t.socket(`${t.ws}/ws/pty?sessionId=${t.session()}&shell=/no/such/shell`).catch((reason) => reason);
  assert.equal(error.response?.statusCode, 400);
});

check('terminal_invalid_frames_are_reported_and_harmless', async (t) => {
  const { send, waitForFrame, frames, bytes, socket } = await t.socket(`${t.ws}/ws/pty?sessionId=${t.session()}&${PLAIN_SHELL_QUERY}`);
  await waitForFrame('ready');
  const messages = () => frames.filter(({ type }) => type === 'error').map(({ message }) => message);
  send('nonsense');
  await eventually('an error', () => messages().includes('Invalid control message'));
  for (const size of [{ cols: 0, rows: 5 }, { cols: 5, rows: -1 }, { cols: 70_000, rows: 1 }, {}]) send({ type: 'resize', ...size });
  await eventually('four more', () => messages().filter((text) => text === 'Invalid dimensions: cols and rows must be positive').length === 4);
  send({ type: 'of the future' });
  send(Buffer.from('echo still th""ere\n'));
  await bytes.waitFor('still there');
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

check('terminal_accepts_input_before_ready', async (t) => {
  const { socket, bytes } = await t.socket(`${t.ws}/ws/pty?sessionId=${t.session()}&${PLAIN_SHELL_QUERY}`);
  socket.send(Buffer.from('echo ea""rly\n'));
  await bytes.waitFor('early');
});

check('terminal_large_paste_arrives_whole', async (t) => {
  const { screen } = await shell(t);
  const lines = 3_000;
  screen.type(`cat > /tmp/paste-$$; md5sum < /tmp/paste-$$; wc -l < /tmp/paste-$$; rm /tmp/paste-$$\n`);
  screen.type([...Array(lines).keys()].map((n) => `line ${n} of what was pasted, which is longer than one frame\n`).join(''));
  screen.type('\x04');
  await screen.seen.waitFor(`${lines}\r\n`);
});

check('terminal_output_of_23_megabytes_is_exact', async (t) => {
  const { screen } = await shell(t);
  const length = 23_000_000;
  screen.type(`stty -onlcr; printf 'be''gin:'; ${printNumbers(length)}; printf ':e''nd'\n`);
  await eventually('the end', () => screen.seen.length > length && screen.seen.all().subarray(-20).toString().includes(':end'));
  const all = screen.seen.all();
  const from = all.indexOf('begin:') + 'begin:'.length;
  assert.ok(all.subarray(from, from + length).equals(numbers(length)));
});

checkConcurrently('terminal_stalled_viewer_does_not_stop_others', async (t) => {
  const { screen, sessionId } = await shell(t);
  const stalled = await t.socket(`${t.ws}/ws/pty?sessionId=${sessionId}&${PLAIN_SHELL_QUERY}`, { reads: false });
  const other = await shell(t);
  screen.type(`stty -onlcr; ${printNumbers(30_000_000)}; printf ':do''ne'\n`);
  other.screen.type('echo other li""ves\n');
  await other.screen.seen.waitFor('other lives');
  // In parts, each with its own timeout: the program waits for the stalled viewer for a while.
  for (const part of [10_000_000, 20_000_000, 30_000_000]) await eventually(`${part} bytes, in spite of the other`, () => screen.seen.length > part);
  await eventually('the end', () => screen.seen.all().subarray(-40).toString().includes(':done'));
  stalled.socket.terminate();
}, { seconds: 120 });
