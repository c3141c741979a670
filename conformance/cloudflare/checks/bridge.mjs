// The bridge, as the agents extension drives it; raw where that has no call.

import assert from 'node:assert/strict';
import { PATIENCE_MS, eventually, mark, numbers, printNumbers, within } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { Gate, longEnough } from '../../_shared/pace.mjs';
import { alone, early } from '../early.mjs';
import { PLAIN, fresh, onTerminal, open } from '../support.mjs';

check('bridge_is_there_and_describes_itself', async (t) => {
  assert.deepEqual((await t.raw('GET', '/health')).json, { ok: true });
  const { json } = await t.raw('GET', '/v1/openapi.json');
  assert.match(json.openapi, /^3\.1/);
  assert.ok(json.paths['/v1/sandbox/{id}/exec'].post && json.paths['/v1/sandbox/{id}/file/{path}'].put);
  for (const path of ['/v1/openapi', '/v1/openapi.html']) {
    const page = await t.raw('GET', path);
    assert.match(page.headers.get('content-type'), /text\/html/);
    assert.match(page.text, /\/v1\/sandbox\/\{id\}\/exec/);
  }
});

check('bridge_client_creates_runs_and_closes', async (t) => {
  const session = await t.bridge();
  assert.match(session.state.sandboxId, /^[a-z2-7]{26}$/);
  assert.equal(await session.running(), true);
  const said = await session.execCommand({ cmd: 'echo out; echo err >&2; pwd; exit 3' });
  assert.match(said, /exited with code 3/);
  assert.match(said, /out\n\/workspace\nerr/);
  assert.match(await session.execCommand({ cmd: 'pwd', workdir: '/workspace' }), /\/workspace/);
  await session.close();
});

check('bridge_exec_raw', async (t) => {
  const id = await t.sandboxId();
  const { events, stdout, stderr, end } = await t.exec(id, ['sh', '-c', 'echo out; echo err >&2; exit 3']);
  assert.deepEqual([stdout.toString(), stderr.toString(), end], ['out\n', 'err\n', { name: 'exit', exit_code: 3 }]);
  assert.equal(events.filter(({ name }) => name === 'exit').length, 1);
  // The arguments are what they are: nothing is left of a shell.
  const odd = ['a b', "it's", '$HOME', '`x`', '\n', '*', '', 'ü', '\\'];
  const { stdout: exact } = await t.exec(id, ['printf', '%s|', ...odd]);
  assert.equal(exact.toString(), odd.map((word) => `${word}|`).join(''));
});

check('bridge_exec_refusals', async (t) => {
  const id = await t.sandboxId();
  const post = (body, sandbox = id) => t.post(`/v1/sandbox/${sandbox}/exec`, body);
  for (const argv of [[], undefined, ['']]) {
    const { status, json } = await post({ argv });
    assert.deepEqual([status, json.code], [400, 'invalid_request']);
  }
  for (const cwd of ['/etc', '..', '/workspace/../etc']) {
    const { status, json } = await post({ argv: ['true'], cwd });
    assert.deepEqual([status, json.code], [403, 'invalid_request'], cwd);
  }
  const missing = await post({ argv: ['true'], cwd: '/workspace/no-such-folder' });
  assert.deepEqual([missing.status, missing.json.code], [400, 'exec_error']);
  for (const wrong of ['ABC', 'a-b', 'a1', 'x'.repeat(129)]) {
    const { status, json } = await post({ argv: ['true'] }, wrong);
    assert.deepEqual([status, json], [400, { error: 'Invalid sandbox ID format', code: 'invalid_request' }]);
  }
  const garbage = await t.raw('POST', `/v1/sandbox/${id}/exec`, { headers: { 'content-type': 'application/json' }, body: '{' });
  assert.deepEqual([garbage.status, garbage.json.code], [400, 'invalid_request']);
});

check('bridge_exec_ends_of_all_kinds', async (t) => {
  const id = await t.sandboxId();
  const code = async (argv, more) => (await t.exec(id, argv, more)).end.exit_code;
  assert.equal(await code(['sh', '-c', 'kill -9 $$']), 137);
  assert.equal(await code(['no-such-command-here']), 127);
  assert.equal(await code(['/etc/passwd']), 126);
  assert.equal(await code(['cat']), 0, 'stdin is empty');
  assert.equal((await t.exec(id, ['pwd'], { cwd: '/workspace' })).stdout.toString(), '/workspace\n');
});

check('bridge_exec_time_limit_answers_in_time_and_takes_the_tree', async (t) => {
  const name = mark();
  const id = await t.sandboxId();
  // None of them ends by itself or by TERM: who waits for that never answers.
  const line = `trap '' TERM; (setsid sh -c 'trap "" TERM; while :; do sleep 1; done' ${name}) & echo begun; sleep 300`;
  const [ms, { stdout, stderr, end }] = await longEnough(
    (limit) => t.exec(id, ['bash', '-c', line], { timeout_ms: limit }),
    (answer) => answer.stdout.length > 0,
  );
  assert.deepEqual([stdout.toString(), end.exit_code], ['begun\n', 124]);
  assert.match(stderr.toString(), new RegExp(`timed out after ${ms}ms`));
  await eventually('the tree is gone', async () => (await t.living(name)) === 0);
});

check('bridge_exec_20_megabytes_and_bytes_that_are_no_text', async (t) => {
  const id = await t.sandboxId();
  const { stdout } = await t.exec(id, ['sh', '-c', printNumbers(20_000_000)]);
  assert.ok(stdout.equals(numbers(20_000_000)));
  const { stdout: bytes, events } = await t.exec(id, ['bash', '-c', String.raw`printf '\xff\x00\xe2'; sleep 0.2; printf '\x82\xac\xf0\x9f'`]);
  assert.deepEqual([...bytes], [0xff, 0, 0xe2, 0x82, 0xac, 0xf0, 0x9f]);
  const pieces = events.filter(({ name }) => name === 'stdout').map(({ data }) => Buffer.from(data, 'base64').toString('hex'));
  assert.ok(pieces.some((hex) => hex.includes('e282ac')), 'a character is whole in one event');
  // That client decodes each event by itself.
  const session = await t.bridge();
  assert.match(await session.execCommand({ cmd: String.raw`printf '\342'; sleep 0.2; printf '\202\254'` }), /Output:\n\u20ac$/);
});

check('bridge_exec_broken_off_ends_the_command', async (t) => {
  const name = mark();
  const id = await t.sandboxId();
  const { request, response } = await open(`${t.url}/v1/sandbox/${id}/exec`, { body: { argv: ['bash', '-c', `exec -a ${name} sleep 300`] } });
  assert.equal(response.statusCode, 200);
  await eventually('it runs', async () => (await t.living(name)) === 1);
  request.destroy();
  await eventually('it is gone', async () => (await t.living(name)) === 0);
});

// cloudflare/sandbox-sdk#765: each left a record for ever.
check('bridge_1000_execs_leave_the_list_as_it_was', async (t) => {
  await alone();
  const id = await t.sandboxId();
  const { processId } = await t.start('sleep 300');
  const list = async () => [
    (await t.client().processes.listProcesses()).processes.map((process) => process.id),
    (await t.native('GET', '/v1/processes?all=true')).processes.map((process) => process.id),
  ];
  const before = await list();
  assert.ok(before[0].includes(processId));
  let left = 1_000;
  const worker = async () => {
    while (left > 0) {
      left -= 1;
      const { end } = await t.exec(id, ['true']);
      assert.equal(end.exit_code, 0);
    }
  };
  await Promise.all([...Array(8)].map(worker));
  // Others may go meanwhile; none has come.
  const after = await list();
  assert.deepEqual(after[0], before[0]);
  assert.deepEqual(after[1].filter((other) => !before[1].includes(other)), []);
}, { seconds: 180 });

check('bridge_session_takes_json_or_nothing', async (t) => {
  const id = await t.sandboxId();
  const ask = (headers, body) => t.raw('POST', `/v1/sandbox/${id}/session`, { headers, body });
  const body = JSON.stringify({ id: 'typed' });
  assert.equal((await ask({ 'content-type': 'text/plain' }, body)).status, 415);
  assert.equal((await ask({ 'content-type': 'application/json', 'content-encoding': 'gzip' }, body)).status, 415);
  assert.equal((await ask({ 'content-type': 'application/json' }, '{')).status, 400);
  assert.equal((await ask({ 'content-type': 'application/json' }, body)).json.id, 'typed');
  assert.match((await ask({}, undefined)).json.id, /^session-/);
  assert.match((await ask({ 'content-type': 'application/json' }, '')).json.id, /^session-/);
});

check('bridge_sessions', async (t) => {
  const id = await t.sandboxId();
  const made = await t.post(`/v1/sandbox/${id}/session`, { id: 'mine', cwd: '/usr', env: { A: '1' } });
  assert.deepEqual([made.status, made.json], [200, { id: 'mine' }]);
  const headers = { 'session-id': 'mine' };
  assert.equal((await t.exec(id, ['sh', '-c', 'pwd; echo $A'], { headers })).stdout.toString(), '/usr\n1\n');
  await t.exec(id, ['export', 'B=two words'], { headers });
  assert.equal((await t.exec(id, ['sh', '-c', 'echo "$B"'], { headers })).stdout.toString(), 'two words\n');
  const twice = await t.post(`/v1/sandbox/${id}/session`, { id: 'mine' });
  assert.deepEqual([twice.status, twice.json.code], [502, 'session_error']);
  const other = await t.sandboxId();
  assert.equal((await t.exec(other, ['sh', '-c', 'echo "[$B]"'], { headers })).stdout.toString(), '[]\n', 'sandboxes are apart');
  const late = await t.exec(id, ['sleep', '300'], { headers, timeout_ms: 400 });
  assert.deepEqual(late.end, { name: 'exit', exit_code: 124 });
  const unnamed = await t.post(`/v1/sandbox/${id}/session`, undefined);
  assert.ok(unnamed.json.id);
  for (const wrong of ['a..b', 'a b', 'x'.repeat(129)]) {
    assert.equal((await t.post(`/v1/sandbox/${id}/exec`, { argv: ['true'] }, { 'session-id': wrong })).status, 400, wrong);
  }
  const gone = await t.raw('DELETE', `/v1/sandbox/${id}/session/mine`);
  assert.deepEqual([gone.status, gone.json.success, gone.json.sessionId], [200, true, 'mine']);
  const again = await t.raw('DELETE', `/v1/sandbox/${id}/session/mine`);
  assert.deepEqual([again.status, again.json.code], [502, 'session_error']);
});

check('bridge_delete_stops_what_the_sandbox_started', async (t) => {
  const [id, other] = [await t.sandboxId(), await t.sandboxId()];
  const [name, kept] = [mark(), mark()];
  const begin = (sandbox, word, headers = {}) => open(`${t.url}/v1/sandbox/${sandbox}/exec`, { body: { argv: ['bash', '-c', `exec -a ${word} sleep 300`] }, headers });
  await begin(id, name);
  await begin(id, name, { 'session-id': 's' });
  const keeper = await begin(other, kept);
  t.atEnd.push(() => keeper.request.destroy());
  const pty = await t.socket(`${t.ws}/v1/sandbox/${id}/pty?${PLAIN}`);
  await pty.told('ready');
  pty.say(Buffer.from(`exec -a ${name} sleep 300\n`));
  await eventually('all of them', async () => (await t.living(name)) === 3 && (await t.living(kept)) === 1);
  assert.equal((await t.raw('DELETE', `/v1/sandbox/${id}`)).status, 204);
  await eventually('none of them', async () => (await t.living(name)) === 0);
  assert.equal(await t.living(kept), 1);
  assert.equal((await t.raw('DELETE', `/v1/sandbox/${id}`)).status, 204, 'also when there is nothing');
  assert.equal((await t.raw('DELETE', '/v1/sandbox/neverseen')).status, 204);
  assert.deepEqual((await t.raw('GET', `/v1/sandbox/${id}/running`)).json, { running: true }, 'there is always one');
});

check('bridge_what_is_not_a_sandboxs_is_unsupported', async (t) => {
  const id = await t.sandboxId();
  const of = `/v1/sandbox/${id}`;
  for (const [method, path] of [['POST', `${of}/mount`], ['POST', `${of}/unmount`], ['POST', `${of}/tunnel/80`], ['DELETE', `${of}/tunnel/80`], ['GET', '/v1/pool/stats'], ['POST', '/v1/pool/prime']]) {
    const { status, json } = await t.raw(method, path);
    assert.deepEqual([status, json.code], [501, 'unsupported'], path);
  }
  const session = await t.bridge();
  const error = await session.unmountBucket('/workspace/x').catch((reason) => reason);
  assert.equal(error.name, 'SandboxMountError');
});

// ---- terminals of the bridge

early('bridge_terminal_of_the_client', async (t) => {
  const session = await t.bridge();
  const terminal = await onTerminal(session, 'echo from a $(tty | cut -c1-8)');
  await terminal.until(/from a \/dev\/pts/);
  await terminal.type('echo ty""ped\n');
  await terminal.until(/typed/);
  await terminal.type('exit 4\n');
  await terminal.until(/exited with code 4/);
});

// There, all of them share one shell, and mix what they print.
check('bridge_terminals_without_a_session_are_apart', async (t) => {
  const id = await t.sandboxId();
  const both = await Promise.all([1, 2].map(() => t.socket(`${t.ws}/v1/sandbox/${id}/pty?cols=90&rows=30&${PLAIN}`)));
  for (const [n, { told, say }] of both.entries()) {
    await told('ready');
    say(Buffer.from(`stty -echo; WHO=${n}; sleep 0.3; echo i am $WHO; stty size\n`));
  }
  await both[0].bytes.until('i am 0');
  await both[1].bytes.until('i am 1');
  await both[1].bytes.until('30 90');
  assert.doesNotMatch(both[0].bytes.text(), /i am 1/);
});

check('bridge_terminal_ends_some_time_after_its_socket', async (t) => {
  const id = await t.sandboxId();
  const { told, socket } = await t.socket(`${t.ws}/v1/sandbox/${id}/pty?${PLAIN}`);
  await told('ready');
  const its = async () => (await t.native('GET', '/v1/processes?tty=true')).processes.find(({ annotations }) => annotations?.['cloudflare.sandbox'] === id);
  assert.equal((await its()).killAfterDetachMs, 10_000);
  socket.close();
  await eventually('nobody is attached', async () => (await its()).attachments === 0);
});

check('bridge_terminal_of_a_session_is_shared', async (t) => {
  const id = await t.sandboxId();
  const first = await t.socket(`${t.ws}/v1/sandbox/${id}/pty?session=mine&${PLAIN}`);
  await first.told('ready');
  first.say(Buffer.from('V=shared; echo o""k\n'));
  await first.bytes.until('ok');
  const second = await t.socket(`${t.ws}/v1/sandbox/${id}/pty`, { headers: { 'session-id': 'mine' } });
  await second.told('ready');
  second.say(Buffer.from('echo is $V\n'));
  await second.bytes.until('is shared');
});

check('bridge_terminal_refusals', async (t) => {
  const id = await t.sandboxId();
  for (const [path, why] of [[`/v1/sandbox/${id}/pty`, /upgrade/i], [`/v1/sandbox/${id}/pty?cols=NaN`, /valid numbers/], ['/v1/sandbox/NO/pty', /ID format/], [`/v1/sandbox/${id}/pty?session=a..b`, /session ID/i]]) {
    const { status, json } = await t.raw('GET', path);
    assert.deepEqual([status, json.code], [400, 'invalid_request'], path);
    assert.match(json.error, why);
  }
});

check('bridge_32_at_once', async (t) => {
  const id = await t.sandboxId();
  const gate = new Gate(t.atEnd);
  const all = [...Array(32).keys()].map((n) => t.exec(id, ['sh', '-c', `${gate.wait}; echo ${n}`]));
  // None has ended before all of them run.
  await gate.arrived(32);
  gate.letPass(32);
  (await within(PATIENCE_MS, 'all of them', Promise.all(all))).forEach(({ stdout }, n) => assert.equal(stdout.toString(), `${n}\n`));
  assert.ok(fresh());
});
