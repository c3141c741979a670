// Terminals by two steps: made, then connected to. No SDK has calls for them, so this is the protocol itself.

import assert from 'node:assert/strict';
import { PATIENCE_MS, eventually, mark, numbers, printNumbers, within } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { Gate } from '../../_shared/pace.mjs';

check('pty_is_made_and_starts_nothing', async (t) => {
  const id = await t.pty();
  const { status, json } = await t.http('GET', `/pty/${id}`);
  assert.equal(status, 200);
  assert.deepEqual(json, { session_id: id, running: false, output_offset: 0, launch_attempted: false, launch_failed: false });
  assert.equal((await t.http('POST', '/pty')).status, 201, 'without a body');
});

check('pty_of_nobody_is_404', async (t) => {
  const nobody = '00000000-0000-0000-0000-000000000000';
  for (const method of ['GET', 'DELETE']) {
    const { status, json } = await t.http(method, `/pty/${nobody}`);
    assert.deepEqual([status, json.code], [404, 'CONTEXT_NOT_FOUND']);
  }
  const refusal = await t.refusedSocket(`/pty/${nobody}/ws`);
  assert.deepEqual([refusal.status, refusal.json.code], [404, 'CONTEXT_NOT_FOUND']);
});

check('pty_connects_types_and_exits', async (t) => {
  const id = await t.pty();
  const socket = await t.socket(`/pty/${id}/ws`);
  const connected = await socket.text('connected');
  assert.deepEqual(connected, { type: 'connected', session_id: id, mode: 'pty', role: 'holder' });
  assert.equal(socket.frames[0].type, 'connected', 'nothing to replay');
  socket.type('tty; stty size; echo rea""dy\n');
  await socket.until('ready');
  assert.match(socket.printed(), /\/dev\/pts\/\d+\r\n24 80\r\nready/);
  assert.ok(socket.channels[1].length > 0 && socket.channels[2].length === 0);
  assert.equal((await t.http('GET', `/pty/${id}`)).json.running, true);
  socket.send({ type: 'stdin', data: 'exit 5\n' });
  assert.equal((await socket.text('exit')).exit_code, 5);
  assert.deepEqual(await socket.over(), { code: 1000, reason: 'process exited' });
  assert.equal((await t.http('GET', `/pty/${id}`)).json.running, false);
});

check('pty_folder_is_made_and_a_command_is_run', async (t) => {
  const folder = `/tmp/${mark()}/deep`;
  t.atEnd.push(() => t.run(`rm -rf ${folder.slice(0, -5)}`));
  const socket = await t.connect(await t.pty({ cwd: folder, command: 'pwd; exit 3' }));
  assert.equal((await socket.text('exit')).exit_code, 3);
  assert.equal(socket.printed(), `${folder}\r\n`);
  const { status, json } = await t.http('POST', '/pty', { body: { cwd: '/etc/passwd/x' } });
  assert.deepEqual([status, json.code], [400, 'INVALID_REQUEST_BODY'], 'one answer, and a refusal');
});

// There a third of these came back empty.
check('pty_short_commands_lose_nothing', async (t) => {
  const one = async (query) => {
    const socket = await t.connect(await t.pty({ command: 'echo hello-world' }), query);
    await socket.text('exit');
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
  await socket.until('trap');
  socket.send({ type: 'resize', cols: 123, rows: 45 });
  await socket.until('winch');
  assert.match(socket.printed(), /45 123\r\nwinch/);
  socket.send({ type: 'resize', cols: 0, rows: 10 });
  socket.send({ type: 'resize', cols: 70000, rows: 10 });
  assert.equal((await socket.text('error')).code, 'INVALID_FRAME');
  socket.type('stty size; echo af""ter\n');
  await socket.until('after');
  assert.match(socket.printed(), /45 123\r\nafter/, 'neither was taken');
});

check('pty_ping_and_frames_that_make_no_sense', async (t) => {
  const { socket } = await t.shell();
  socket.send({ type: 'ping' });
  await socket.text('pong');
  for (const ignored of ['no json', '[1]', '{"type":"signal","signal":"SIGSTOP"}']) socket.ws.send(ignored);
  for (const ignored of [Buffer.alloc(0), Buffer.from([0]), Buffer.from([9, 65])]) socket.ws.send(ignored);
  socket.send({ type: 'dance' });
  assert.equal((await socket.text('error')).code, 'INVALID_FRAME');
  socket.type('echo st""ill\n');
  await socket.until('still');
  assert.equal(socket.frames.filter(({ type }) => type === 'error').length, 1);
});

check('pty_ctrl_c_and_signals_reach_the_foreground', async (t) => {
  const { socket } = await t.shell();
  const job = "sh -c 'trap \"echo go\"t\"; exit\" INT; echo wai\"\"ts; while :; do sleep 0.05; done'\n";
  socket.type(job);
  await socket.until('waits');
  socket.send({ type: 'signal', signal: 'SIGINT' });
  await socket.until('got');
  socket.type("sleep 300; echo ne''ver\n");
  await eventually('the job', async () => (await foreground(t, socket)).includes('sleep'));
  socket.type('\x03');
  socket.type("echo ab''orted $?\n");
  await socket.until('aborted 130');
  socket.type("sleep 301; echo en''ded $?\n");
  await eventually('the job', async () => (await foreground(t, socket)).includes('sleep'));
  socket.send({ type: 'signal', signal: 'SIGQUIT' });
  await socket.until('ended 131');
});

/** What runs in it, by outlive's own eyes. */
async function foreground(t, socket) {
  const { session_id: id } = socket.frames.find(({ type }) => type === 'connected');
  const [process] = (await t.native('GET', '/v1/processes?status=running')).processes.filter(({ id: own }) => theirs(own) === id);
  const { processes } = await t.native('GET', `/v1/processes/${process.id}/tree`);
  return JSON.stringify(processes);
}

/** Their id is ours in another spelling. */
export function theirs(own) {
  const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';
  const number = [...own.slice('proc_'.length)].reduce((sum, letter) => sum * 32n + BigInt(alphabet.indexOf(letter)), 0n);
  const digits = number.toString(16).padStart(32, '0');
  return [digits.slice(0, 8), digits.slice(8, 12), digits.slice(12, 16), digits.slice(16, 20), digits.slice(20)].join('-');
}

check('pty_kill_frame_ends_everything', async (t) => {
  const { socket } = await t.shell();
  socket.send({ type: 'signal', signal: 'SIGKILL' });
  const exit = await socket.text('exit');
  assert.deepEqual([exit.exit_code, exit.signal], [-1, 'SIGKILL']);
});

check('pty_replay_comes_first_and_has_its_offset', async (t) => {
  const id = await t.pty({ command: 'stty raw -echo; printf first; exec cat' });
  const socket = await t.connect(id);
  await socket.until('first');
  const before = socket.printed();
  assert.equal(before, 'first');
  socket.ws.close();
  await socket.over();
  const again = await t.connect(id);
  assert.deepEqual([again.frames[0].channel, again.frames[0].offset], [3, 0]);
  assert.equal(again.frames[1].type, 'connected');
  assert.equal(again.printed(), before);
  const offset = before.length;
  assert.equal((await t.http('GET', `/pty/${id}`)).json.output_offset, offset);
  again.ws.close();
  await again.over();
  const part = await t.connect(id, `?since=${offset - 3}`);
  assert.deepEqual([part.frames[0].offset, part.frames[0].bytes.toString()], [offset - 3, before.slice(-3)]);
  part.ws.close();
  await part.over();
  const none = await t.connect(id, `?since=${offset}`);
  assert.equal(none.frames[0].type, 'connected', 'no frame for nothing');
});

check('pty_reconnects_lose_and_repeat_nothing', async (t) => {
  const { id, socket } = await t.shell();
  const gate = new Gate(t.atEnd);
  // A part of it each time it may go on, so that every connection breaks while there is more to come.
  socket.type(`i=0; while [ $i -lt 4000 ]; do [ $((i%800)) = 0 ] && { ${gate.wait}; }; echo $i; i=$((i+1)); done; echo en""d\n`);
  let all = '';
  let current = socket;
  for (let count = 800; count <= 4000; count += 800) {
    const had = current.printed().length;
    gate.letPass();
    await current.when('more of it', () => current.printed().length > had);
    current.ws.terminate();
    await current.over();
    all += current.printed();
    current = await t.connect(id, `?since=${all.length}&takeover=1`);
    const replay = current.frames.find(({ channel }) => channel === 3);
    if (replay) assert.equal(replay.offset, all.length);
    await current.when(`${count} lines`, () => (all + current.printed()).includes(`\n${count - 1}\r\n`));
  }
  await current.when('the end', () => (all + current.printed()).includes('end'));
  all += current.printed();
  const expected = `${[...Array(4000).keys()].map((n) => `${n}\r\n`).join('')}end`;
  assert.ok(all.includes(expected), all.slice(-300));
});

check('pty_unattended_output_is_kept_and_the_program_does_not_wait', async (t) => {
  const { id, socket } = await t.shell();
  const gate = new Gate(t.atEnd);
  socket.type(`${gate.wait}; ${printNumbers(5_000_000)}; echo; echo do""ne\n`);
  socket.ws.close();
  await socket.over();
  gate.letPass();
  await eventually('all of it', async () => (await t.http('GET', `/pty/${id}`)).json.output_offset > 5_000_000);
  const again = await t.connect(id);
  await again.until('done');
  assert.ok(again.frames.filter(({ channel }) => channel === 3).every(({ bytes }) => bytes.length < 1 << 20), 'frames that common clients take');
  const expected = numbers(5_000_000).toString().replaceAll('\n', '\r\n');
  assert.ok(again.printed().includes(expected));
});

check('pty_second_client_is_refused_and_takeover_evicts', async (t) => {
  const { id, socket } = await t.shell();
  const refusal = await t.refusedSocket(`/pty/${id}/ws`);
  assert.deepEqual([refusal.status, refusal.json.code], [409, 'ALREADY_CONNECTED']);
  const second = await t.connect(id, '?takeover=1');
  assert.deepEqual(await socket.over(), { code: 4001, reason: 'TAKEN_OVER' });
  second.type('echo mi""ne\n');
  await second.until('mine');
  second.ws.close();
  await second.over();
  const third = await t.connect(id);
  assert.ok(third.printed().includes('mine'));
});

check('pty_takeover_does_not_wait_for_a_stuck_peer', async (t) => {
  const { id, socket } = await t.shell();
  socket.type('yes 0123456789\n');
  await socket.until('0123456789');
  socket.ws._socket.pause();
  // Everything between the program and the client is full: it gets no further.
  const offset = async () => (await t.http('GET', `/pty/${id}`)).json.output_offset;
  await eventually('the program waits', async () => (await offset()) === (await offset()));
  // The peer reads nothing from here on: who waits for it waits for ever.
  const second = await t.connect(id, '?takeover=1&since=99999999999');
  second.type('\x03');
  second.type('echo fr""ee\n');
  await second.until('free');
});

check('pty_close_is_answered_at_once', async (t) => {
  const { socket } = await t.shell();
  const gone = new Promise((resolve) => socket.ws._socket.once('close', resolve));
  socket.ws.close(1000);
  assert.equal((await socket.over()).code, 1000);
  // Left alone, the client itself would cut it off after half a minute.
  await within(PATIENCE_MS, 'the end of the connection', gone);
});

check('pty_after_its_end_a_new_shell_and_the_count_goes_on', async (t) => {
  const { id, socket } = await t.shell();
  socket.type('echo li""fe1; exit 1\n');
  await socket.text('exit');
  const { output_offset: offset } = (await t.http('GET', `/pty/${id}`)).json;
  const again = await t.connect(id);
  assert.ok(again.frames[0].bytes.toString().includes('life1'));
  again.type('echo li""fe2\n');
  await again.until('life2');
  assert.ok((await t.http('GET', `/pty/${id}`)).json.output_offset > offset);
});

check('pty_start_that_fails_is_said', async (t) => {
  const folder = `/tmp/${mark()}`;
  const id = await t.pty({ cwd: folder });
  await t.run(`rm -rf ${folder}`);
  const socket = await t.socket(`/pty/${id}/ws`);
  assert.equal((await socket.text('error')).code, 'START_FAILED');
  await socket.over();
  assert.deepEqual((await t.http('GET', `/pty/${id}`)).json, { session_id: id, running: false, output_offset: 0, launch_attempted: true, launch_failed: true });
  await t.run(`mkdir ${folder}`);
  const again = await t.connect(id);
  again.type('exit\n');
  await again.text('exit');
  assert.equal((await t.http('GET', `/pty/${id}`)).json.launch_failed, false);
  await t.run(`rm -rf ${folder}`);
});

check('pty_deleted_takes_all_jobs_with_it', async (t) => {
  const { id, socket } = await t.shell();
  const name = mark();
  socket.type(`sh -c 'sleep 300; : ${name}' & setsid sh -c 'sleep 300; : ${name}' & echo jo""bs\n`);
  await socket.until('jobs');
  await eventually('both', async () => (await t.living(name)) >= 2);
  assert.equal((await t.http('DELETE', `/pty/${id}`)).status, 200);
  assert.equal((await socket.text('exit')).exit_code, -1);
  assert.equal((await socket.over()).code, 1000);
  assert.equal(await t.living(name), 0);
  assert.equal((await t.http('GET', `/pty/${id}`)).status, 404);
});

check('pty_paste_of_300_kb_is_exact', async (t) => {
  const { socket } = await t.shell();
  socket.type("stty raw; echo ra''w; head -c 300000 | md5sum\n");
  await socket.until('raw');
  const paste = numbers(300_000);
  socket.ws.send(Buffer.concat([Buffer.from([0]), paste]));
  const { createHash } = await import('node:crypto');
  await socket.until(createHash('md5').update(paste).digest('hex'));
});

check('pipe_mode_keeps_streams_apart_and_passes_every_byte', async (t) => {
  const id = await t.pty({ command: 'cat; echo err >&2; exit 4' });
  const socket = await t.socket(`/pty/${id}/ws?pty=0`);
  assert.equal((await socket.text('connected')).mode, 'pipe');
  const bytes = Buffer.from([...Array(256).keys()]);
  socket.ws.send(Buffer.concat([Buffer.from([0]), bytes]));
  await socket.when('all bytes', () => socket.channels[1].length === 256);
  assert.deepEqual(socket.channels[1], bytes);
  socket.send({ type: 'resize', cols: 5, rows: 5 });
  socket.send({ type: 'eof' });
  assert.equal((await socket.text('exit')).exit_code, 4);
  assert.equal(socket.channels[2].toString(), 'err\n');
});

check('pipe_mode_is_chosen_by_who_starts_it', async (t) => {
  const id = await t.pty({ command: '[ -t 0 ] && echo terminal || echo pipe' });
  for (const [query, expected] of [['', 'terminal'], ['?pty=0', 'pipe'], ['?pty=1', 'terminal']]) {
    const socket = await t.connect(id, query);
    await socket.text('exit');
    assert.equal(socket.channels[1].toString().trim(), expected, query);
  }
});
