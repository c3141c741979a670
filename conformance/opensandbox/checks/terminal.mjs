// A terminal in one step, as in the feature request, and commands on a socket.

import assert from 'node:assert/strict';
import { eventually, uniqueMarker, numbers, printNumbers } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';

const PATHS = ['/terminal', '/v1/sandboxes/any-sandbox/proxy/44772/terminal'];

check('terminal_opens_with_one_call_on_both_paths', async (t) => {
  for (const path of PATHS) {
    const socket = await t.socket(`${path}?cols=101&rows=31&command=${encodeURIComponent('stty size; [ -t 0 ] && exit 3')}`);
    assert.equal((await socket.waitForFrame('exit')).exit_code, 3);
    assert.deepEqual(await socket.waitForClose(), { code: 1000, reason: 'process exited' });
    assert.equal(socket.raw.toString(), '31 101\r\n', 'raw frames');
  }
});

check('terminal_defaults_to_an_80x24_shell_with_resize_and_signals', async (t) => {
  const socket = await t.socket('/terminal');
  socket.ws.send(Buffer.from("stty -echo; stty size; echo $0 rea''dy\n"));
  await socket.waitForRaw('ready');
  assert.match(socket.raw.toString(), /24 80\r\n(bash|sh) ready/);
  socket.send({ type: 'ping' });
  await socket.waitForFrame('pong');
  socket.send({ type: 'resize', cols: 90, rows: 20 });
  socket.ws.send(Buffer.from("until [ \"$(stty size)\" = '20 90' ]; do sleep 0.02; done; echo res''ized\n"));
  await socket.waitForRaw('resized');
  socket.ws.send(Buffer.from("sh -c 'trap \"echo go\"\"t; exit\" INT; echo wai\"\"ts; while :; do sleep 0.1; done'\n"));
  await socket.waitForRaw('waits');
  socket.send({ type: 'signal', signal: 'SIGINT' });
  await socket.waitForRaw('got');
  socket.ws.send(Buffer.from('exit\n'));
  assert.equal((await socket.waitForClose()).code, 1000);
});

check('terminal_bad_size_or_missing_upgrade_is_400', async (t) => {
  for (const query of ['cols=0', 'rows=70000', 'cols=many']) {
    assert.equal((await t.refusedSocket(`/terminal?${query}`)).status, 400, query);
  }
  for (const path of [...PATHS, '/command?command=true']) {
    const { status, json } = await t.http('GET', path);
    assert.equal(status, 400);
    assert.match(json.message, /WebSocket/);
  }
  assert.equal((await t.refusedSocket('/terminal?cwd=/no/such')).status, 400);
});

check('terminal_output_of_20_mb_is_exact', async (t) => {
  const socket = await t.socket(`/terminal?command=${encodeURIComponent(`stty -opost; ${printNumbers(20_000_000)}`)}`);
  const frames = [];
  socket.ws.removeAllListeners('message');
  socket.ws.on('message', (data, isBinary) => isBinary && frames.push(data));
  await socket.waitForClose();
  assert.ok(Buffer.concat(frames).equals(numbers(20_000_000)));
});

check('terminal_without_a_tag_is_hung_up_with_its_client', async (t) => {
  const name = uniqueMarker();
  const file = `/tmp/${name}`;
  t.cleanUpSteps.push(() => t.run(`rm -f ${file}`));
  const line = `trap 'echo bye > ${file}; exit' HUP; echo up; while :; do sleep 0.1; : ${name}; done`;
  const socket = await t.socket(`/terminal?command=${encodeURIComponent(line)}`);
  await socket.waitForRaw('up');
  socket.ws.close();
  await socket.waitForClose();
  await eventually('the end', async () => (await t.countProcesses(name)) === 0);
  assert.equal((await t.run(`cat ${file}`)).out, 'bye', 'it could react to the hang-up');
});

check('terminal_with_a_tag_stays_and_can_be_attached_again', async (t) => {
  const tag = uniqueMarker();
  const path = `/terminal?tag=${tag}`;
  const socket = await t.socket(path);
  t.cleanUpSteps.push(() => t.native('POST', `/v1/processes/tag:${tag}/kill`));
  socket.ws.send(Buffer.from("stty -echo; PS1=; echo fi''rst\n"));
  await socket.waitForRaw('first');
  const second = await t.socket(path);
  await second.waitForRaw('first');
  socket.ws.close();
  await socket.waitForClose();
  second.ws.terminate();
  await second.waitForClose();
  const third = await t.socket(`/v1/sandboxes/x/proxy/1/terminal?tag=${tag}`);
  third.ws.send(Buffer.from("echo sec''ond; exit\n"));
  await third.waitForRaw('second');
  assert.equal((await third.waitForClose()).code, 1000);
  assert.ok(third.raw.toString().includes('first'), 'earlier output is replayed');
  assert.equal((await t.findNative(tag)).length, 1, 'it is still the same process');
});

check('command_socket_runs_on_a_terminal_or_on_pipes', async (t) => {
  const line = encodeURIComponent('stty size 2>/dev/null || echo none; read x; echo got $x; echo err >&2; exit 5');
  const terminal = await t.socket(`/command?command=${line}&tty=true&cols=70&rows=20`);
  await terminal.waitForRaw('20 70');
  terminal.ws.send(Buffer.from('it\n'));
  assert.equal((await terminal.waitForFrame('exit')).exit_code, 5);
  assert.match(terminal.raw.toString(), /got it\r\nerr\r\n/);
  const pipes = await t.socket(`/command?command=${line}&tty=false`);
  assert.equal((await pipes.waitForFrame('connected')).mode, 'pipe');
  await pipes.waitFor('none');
  pipes.type('it\n');
  assert.equal((await pipes.waitForFrame('exit')).exit_code, 5);
  assert.deepEqual([pipes.channels[1].toString(), pipes.channels[2].toString()], ['none\ngot it\n', 'err\n']);
  const refusal = await t.refusedSocket('/command?tty=true');
  assert.deepEqual([refusal.status, refusal.json.code], [400, 'MISSING_QUERY']);
});

check('command_socket_enforces_the_time_limit', async (t) => {
  const socket = await t.socket('/command?command=sleep+300&timeout=300');
  const exit = await socket.waitForFrame('exit');
  assert.deepEqual([exit.exit_code, exit.signal, exit.timed_out], [-1, 'SIGKILL', true]);
});
