// Terminals in two steps: create, then connect. No SDK has calls for them, so the checks use the raw protocol.

import assert from 'node:assert/strict';
import { TIMEOUT_MS, eventually, uniqueMarker, numbers, printNumbers, withTimeout } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { Gate } from '../../_shared/gate.mjs';

check('pty_create_starts_no_program', async (t) => {
  const id = await t.pty();
  const { status, json } = await t.http('GET', `/pty/${id}`);
  assert.equal(status, 200);
  assert.deepEqual(json, { session_id: id, running: false, output_offset: 0, launch_attempted: false, launch_failed: false });
  assert.equal((await t.http('POST', '/pty')).status, 201, 'without a body');
});

check('pty_that_is_unknown_is_404', async (t) => {
  const unknown = '00000000-0000-0000-0000-000000000000';
  for (const method of ['GET', 'DELETE']) {
    const { status, json } = await t.http(method, `/pty/${unknown}`);
    assert.deepEqual([status, json.code], [404, 'CONTEXT_NOT_FOUND']);
  }
  const refusal = await t.refusedSocket(`/pty/${unknown}/ws`);
  assert.deepEqual([refusal.status, refusal.json.code], [404, 'CONTEXT_NOT_FOUND']);
});

check('pty_connection_accepts_input_and_reports_the_exit', async (t) => {
  const id = await t.pty();
  const socket = await t.socket(`/pty/${id}/ws`);
  const connected = await socket.waitForFrame('connected');
  assert.deepEqual(connected, { type: 'connected', session_id: id, mode: 'pty', role: 'holder' });
  assert.equal(socket.frames[0].type, 'connected', 'nothing to replay');
  socket.type('tty; stty size; echo rea""dy\n');
  await socket.waitFor('ready');
  assert.match(socket.printed(), /\/dev\/pts\/\d+\r\n24 80\r\nready/);
  assert.ok(socket.channels[1].length > 0 && socket.channels[2].length === 0);
  assert.equal((await t.http('GET', `/pty/${id}`)).json.running, true);
  socket.send({ type: 'stdin', data: 'exit 5\n' });
  assert.equal((await socket.waitForFrame('exit')).exit_code, 5);
  assert.deepEqual(await socket.waitForClose(), { code: 1000, reason: 'process exited' });
  assert.equal((await t.http('GET', `/pty/${id}`)).json.running, false);
});

check('pty_cwd_is_created_and_its_command_runs', async (t) => {
  const directory = `/tmp/${uniqueMarker()}/deep`;
  t.cleanUpSteps.push(() => t.run(`rm -rf ${directory.slice(0, -5)}`));
  const socket = await t.connect(await t.pty({ cwd: directory, command: 'pwd; exit 3' }));
  assert.equal((await socket.waitForFrame('exit')).exit_code, 3);
  assert.equal(socket.printed(), `${directory}\r\n`);
  const { status, json } = await t.http('POST', '/pty', { body: { cwd: '/etc/passwd/x' } });
  assert.deepEqual([status, json.code], [400, 'INVALID_REQUEST_BODY'], 'one reply, a refusal');
});

// In the original a third of these returned no output.
check('pty_short_commands_lose_nothing', async (t) => {
  const one = async (query) => {
    const socket = await t.connect(await t.pty({ command: 'echo hello-world' }), query);
    await socket.waitForFrame('exit');
    return socket.printed();
  };
  for (let round = 0; round < 8; round += 1) {
    const all = await Promise.all([one(''), one('?pty=0'), one(''), one('?pty=0')]);
    assert.deepEqual(all, ['hello-world\r\n', 'hello-world\n', 'hello-world\r\n', 'hello-world\n']);
  }
});

check('pty_resize_is_seen_by_the_program', async (t) => {
  const { socket } = await t.shell();
  socket.type("sh -c 'trap \"stty size; echo wi\"\"nch; exit\" WINCH; echo tr\"\"ap; while :; do sleep 0.02; done'\n");
  await socket.waitFor('trap');
  socket.send({ type: 'resize', cols: 123, rows: 45 });
  await socket.waitFor('winch');
  assert.match(socket.printed(), /45 123\r\nwinch/);
  socket.send({ type: 'resize', cols: 0, rows: 10 });
  socket.send({ type: 'resize', cols: 70000, rows: 10 });
  assert.equal((await socket.waitForFrame('error')).code, 'INVALID_FRAME');
  socket.type('stty size; echo af""ter\n');
  await socket.waitFor('after');
  assert.match(socket.printed(), /45 123\r\nafter/, 'neither resize applied');
});

check('pty_replies_to_ping_and_reports_invalid_frames', async (t) => {
  const { socket } = await t.shell();
  socket.send({ type: 'ping' });
  await socket.waitForFrame('pong');
  for (const ignored of ['no json', '[1]', '{"type":"signal","signal":"SIGSTOP"}']) socket.ws.send(ignored);
  for (const ignored of [Buffer.alloc(0), Buffer.from([0]), Buffer.from([9, 65])]) socket.ws.send(ignored);
  socket.send({ type: 'dance' });
  assert.equal((await socket.waitForFrame('error')).code, 'INVALID_FRAME');
  socket.type('echo st""ill\n');
  await socket.waitFor('still');
  assert.equal(socket.frames.filter(({ type }) => type === 'error').length, 1);
});

check('pty_ctrl_c_and_signals_reach_the_foreground', async (t) => {
  const { socket } = await t.shell();
  const job = "sh -c 'trap \"echo go\"t\"; exit\" INT; echo wai\"\"ts; while :; do sleep 0.05; done'\n";
  socket.type(job);
  await socket.waitFor('waits');
  socket.send({ type: 'signal', signal: 'SIGINT' });
  await socket.waitFor('got');
  socket.type("sleep 300; echo ne''ver\n");
  await eventually('the job', async () => (await foreground(t, socket)).includes('sleep'));
  socket.type('\x03');
  socket.type("echo ab''orted $?\n");
  await socket.waitFor('aborted 130');
  socket.type("sleep 301; echo en''ded $?\n");
  await eventually('the job', async () => (await foreground(t, socket)).includes('sleep'));
  socket.send({ type: 'signal', signal: 'SIGQUIT' });
  await socket.waitFor('ended 131');
});

/** The processes of a terminal, from the native API. */
async function foreground(t, socket) {
  const { session_id: id } = socket.frames.find(({ type }) => type === 'connected');
  const [process] = (await t.native('GET', '/v1/processes?status=running')).processes.filter(({ id: nativeId }) => dialectId(nativeId) === id);
  const { processes } = await t.native('GET', `/v1/processes/${process.id}/tree`);
  return JSON.stringify(processes);
}

/** Converts a native id to an OpenSandbox id. */
export function dialectId(nativeId) {
  const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';
  const number = [...nativeId.slice('proc_'.length)].reduce((sum, letter) => sum * 32n + BigInt(alphabet.indexOf(letter)), 0n);
  const digits = number.toString(16).padStart(32, '0');
  return [digits.slice(0, 8), digits.slice(8, 12), digits.slice(12, 16), digits.slice(16, 20), digits.slice(20)].join('-');
}

check('pty_kill_frame_ends_everything', async (t) => {
  const { socket } = await t.shell();
  socket.send({ type: 'signal', signal: 'SIGKILL' });
  const exit = await socket.waitForFrame('exit');
  assert.deepEqual([exit.exit_code, exit.signal], [-1, 'SIGKILL']);
});

check('pty_replay_is_first_and_has_its_offset', async (t) => {
  const id = await t.pty({ command: 'stty raw -echo; printf first; exec cat' });
  const socket = await t.connect(id);
  await socket.waitFor('first');
  const before = socket.printed();
  assert.equal(before, 'first');
  socket.ws.close();
  await socket.waitForClose();
  const again = await t.connect(id);
  assert.deepEqual([again.frames[0].channel, again.frames[0].offset], [3, 0]);
  assert.equal(again.frames[1].type, 'connected');
  assert.equal(again.printed(), before);
  const offset = before.length;
  assert.equal((await t.http('GET', `/pty/${id}`)).json.output_offset, offset);
  again.ws.close();
  await again.waitForClose();
  const part = await t.connect(id, `?since=${offset - 3}`);
  assert.deepEqual([part.frames[0].offset, part.frames[0].bytes.toString()], [offset - 3, before.slice(-3)]);
  part.ws.close();
  await part.waitForClose();
  const none = await t.connect(id, `?since=${offset}`);
  assert.equal(none.frames[0].type, 'connected', 'no frame without output');
});

check('pty_reconnects_lose_and_repeat_nothing', async (t) => {
  const { id, socket } = await t.shell();
  const gate = new Gate(t.cleanUpSteps);
  // Prints one part per release, so that every connection breaks before the output is complete.
  socket.type(`i=0; while [ $i -lt 4000 ]; do [ $((i%800)) = 0 ] && { ${gate.waitCommand}; }; echo $i; i=$((i+1)); done; echo en""d\n`);
  let all = '';
  let current = socket;
  for (let count = 800; count <= 4000; count += 800) {
    const had = current.printed().length;
    gate.release();
    await current.waitUntil('more of it', () => current.printed().length > had);
    current.ws.terminate();
    await current.waitForClose();
    all += current.printed();
    current = await t.connect(id, `?since=${all.length}&takeover=1`);
    const replay = current.frames.find(({ channel }) => channel === 3);
    if (replay) assert.equal(replay.offset, all.length);
    await current.waitUntil(`${count} lines`, () => (all + current.printed()).includes(`\n${count - 1}\r\n`));
  }
  await current.waitUntil('the end', () => (all + current.printed()).includes('end'));
  all += current.printed();
  const expected = `${[...Array(4000).keys()].map((n) => `${n}\r\n`).join('')}end`;
  assert.ok(all.includes(expected), all.slice(-300));
});

check('pty_unattended_output_is_kept_and_the_program_does_not_wait', async (t) => {
  const { id, socket } = await t.shell();
  const gate = new Gate(t.cleanUpSteps);
  socket.type(`${gate.waitCommand}; ${printNumbers(5_000_000)}; echo; echo do""ne\n`);
  socket.ws.close();
  await socket.waitForClose();
  gate.release();
  await eventually('all of it', async () => (await t.http('GET', `/pty/${id}`)).json.output_offset > 5_000_000);
  const again = await t.connect(id);
  await again.waitFor('done');
  assert.ok(again.frames.filter(({ channel }) => channel === 3).every(({ bytes }) => bytes.length < 1 << 20), 'frames are small enough for common clients');
  const expected = numbers(5_000_000).toString().replaceAll('\n', '\r\n');
  assert.ok(again.printed().includes(expected));
});

check('pty_second_client_is_refused_and_takeover_evicts_the_first', async (t) => {
  const { id, socket } = await t.shell();
  const refusal = await t.refusedSocket(`/pty/${id}/ws`);
  assert.deepEqual([refusal.status, refusal.json.code], [409, 'ALREADY_CONNECTED']);
  const second = await t.connect(id, '?takeover=1');
  assert.deepEqual(await socket.waitForClose(), { code: 4001, reason: 'TAKEN_OVER' });
  second.type('echo mi""ne\n');
  await second.waitFor('mine');
  second.ws.close();
  await second.waitForClose();
  const third = await t.connect(id);
  assert.ok(third.printed().includes('mine'));
});

check('pty_takeover_does_not_wait_for_a_stalled_client', async (t) => {
  const { id, socket } = await t.shell();
  socket.type('yes 0123456789\n');
  await socket.waitFor('0123456789');
  socket.ws._socket.pause();
  // All buffers between the program and the client are full, so the program blocks.
  const offset = async () => (await t.http('GET', `/pty/${id}`)).json.output_offset;
  await eventually('the program waits', async () => (await offset()) === (await offset()));
  // The client reads nothing from here on, so waiting for it would never end.
  const second = await t.connect(id, '?takeover=1&since=99999999999');
  second.type('\x03');
  second.type('echo fr""ee\n');
  await second.waitFor('free');
});

check('pty_close_frame_is_acknowledged_at_once', async (t) => {
  const { socket } = await t.shell();
  const closed = new Promise((resolve) => socket.ws._socket.once('close', resolve));
  socket.ws.close(1000);
  assert.equal((await socket.waitForClose()).code, 1000);
  // Without a response, the client itself would disconnect after 30 s.
  await withTimeout(TIMEOUT_MS, 'the end of the connection', closed);
});

check('pty_connect_after_the_exit_starts_a_new_shell_and_continues_the_offsets', async (t) => {
  const { id, socket } = await t.shell();
  socket.type('echo li""fe1; exit 1\n');
  await socket.waitForFrame('exit');
  const { output_offset: offset } = (await t.http('GET', `/pty/${id}`)).json;
  const again = await t.connect(id);
  assert.ok(again.frames[0].bytes.toString().includes('life1'));
  again.type('echo li""fe2\n');
  await again.waitFor('life2');
  assert.ok((await t.http('GET', `/pty/${id}`)).json.output_offset > offset);
});

check('pty_start_failure_is_reported', async (t) => {
  const directory = `/tmp/${uniqueMarker()}`;
  const id = await t.pty({ cwd: directory });
  await t.run(`rm -rf ${directory}`);
  const socket = await t.socket(`/pty/${id}/ws`);
  assert.equal((await socket.waitForFrame('error')).code, 'START_FAILED');
  await socket.waitForClose();
  assert.deepEqual((await t.http('GET', `/pty/${id}`)).json, { session_id: id, running: false, output_offset: 0, launch_attempted: true, launch_failed: true });
  await t.run(`mkdir ${directory}`);
  const again = await t.connect(id);
  again.type('exit\n');
  await again.waitForFrame('exit');
  assert.equal((await t.http('GET', `/pty/${id}`)).json.launch_failed, false);
  await t.run(`rm -rf ${directory}`);
});

check('pty_delete_ends_all_jobs', async (t) => {
  const { id, socket } = await t.shell();
  const name = uniqueMarker();
  socket.type(`sh -c 'sleep 300; : ${name}' & setsid sh -c 'sleep 300; : ${name}' & echo jo""bs\n`);
  await socket.waitFor('jobs');
  await eventually('both', async () => (await t.countProcesses(name)) >= 2);
  assert.equal((await t.http('DELETE', `/pty/${id}`)).status, 200);
  assert.equal((await socket.waitForFrame('exit')).exit_code, -1);
  assert.equal((await socket.waitForClose()).code, 1000);
  assert.equal(await t.countProcesses(name), 0);
  assert.equal((await t.http('GET', `/pty/${id}`)).status, 404);
});

check('pty_paste_of_300_kb_is_exact', async (t) => {
  const { socket } = await t.shell();
  socket.type("stty raw; echo ra''w; head -c 300000 | md5sum\n");
  await socket.waitFor('raw');
  const paste = numbers(300_000);
  socket.ws.send(Buffer.concat([Buffer.from([0]), paste]));
  const { createHash } = await import('node:crypto');
  await socket.waitFor(createHash('md5').update(paste).digest('hex'));
});

check('pipe_mode_separates_the_streams_and_passes_every_byte', async (t) => {
  const id = await t.pty({ command: 'cat; echo err >&2; exit 4' });
  const socket = await t.socket(`/pty/${id}/ws?pty=0`);
  assert.equal((await socket.waitForFrame('connected')).mode, 'pipe');
  const bytes = Buffer.from([...Array(256).keys()]);
  socket.ws.send(Buffer.concat([Buffer.from([0]), bytes]));
  await socket.waitUntil('all bytes', () => socket.channels[1].length === 256);
  assert.deepEqual(socket.channels[1], bytes);
  socket.send({ type: 'resize', cols: 5, rows: 5 });
  socket.send({ type: 'eof' });
  assert.equal((await socket.waitForFrame('exit')).exit_code, 4);
  assert.equal(socket.channels[2].toString(), 'err\n');
});

check('pipe_mode_is_chosen_by_the_client_that_starts_the_shell', async (t) => {
  const id = await t.pty({ command: '[ -t 0 ] && echo terminal || echo pipe' });
  for (const [query, expected] of [['', 'terminal'], ['?pty=0', 'pipe'], ['?pty=1', 'terminal']]) {
    const socket = await t.connect(id, query);
    await socket.waitForFrame('exit');
    assert.equal(socket.channels[1].toString().trim(), expected, query);
  }
});
