// The bridge, driven by the agents extension; raw requests where it has no call.

import assert from 'node:assert/strict';
import { TIMEOUT_MS, eventually, uniqueMarker, numbers, printNumbers, withTimeout } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { Gate, retryWithLongerLimits } from '../../_shared/gate.mjs';
import { waitForConcurrentChecks, checkConcurrently } from '../concurrent.mjs';
import { PLAIN_SHELL_QUERY, uniqueName, startTerminal, open } from '../support.mjs';

check('bridge_serves_health_and_its_openapi_document', async (t) => {
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
  const output = await session.execCommand({ cmd: 'echo out; echo err >&2; pwd; exit 3' });
  assert.match(output, /exited with code 3/);
  assert.match(output, /out\n\/workspace\nerr/);
  assert.match(await session.execCommand({ cmd: 'pwd', workdir: '/workspace' }), /\/workspace/);
  await session.close();
});

check('bridge_exec_returns_output_exit_code_and_exact_arguments', async (t) => {
  const id = await t.sandboxId();
  const { events, stdout, stderr, end } = await t.exec(id, ['sh', '-c', 'echo out; echo err >&2; exit 3']);
  assert.deepEqual([stdout.toString(), stderr.toString(), end], ['out\n', 'err\n', { name: 'exit', exit_code: 3 }]);
  assert.equal(events.filter(({ name }) => name === 'exit').length, 1);
  // No shell interprets the arguments.
  const odd = ['a b', "it's", '$HOME', '`x`', '\n', '*', '', 'ü', '\\'];
  const { stdout: exact } = await t.exec(id, ['printf', '%s|', ...odd]);
  assert.equal(exact.toString(), odd.map((word) => `${word}|`).join(''));
});

check('bridge_exec_refuses_invalid_requests', async (t) => {
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
  const missing = await post({ argv: ['true'], cwd: '/workspace/no-such-directory' });
  assert.deepEqual([missing.status, missing.json.code], [400, 'exec_error']);
  for (const wrong of ['ABC', 'a-b', 'a1', 'x'.repeat(129)]) {
    const { status, json } = await post({ argv: ['true'] }, wrong);
    assert.deepEqual([status, json], [400, { error: 'Invalid sandbox ID format', code: 'invalid_request' }]);
  }
  const garbage = await t.raw('POST', `/v1/sandbox/${id}/exec`, { headers: { 'content-type': 'application/json' }, body: '{' });
  assert.deepEqual([garbage.status, garbage.json.code], [400, 'invalid_request']);
});

check('bridge_exec_reports_signals_and_start_failures_as_exit_codes', async (t) => {
  const id = await t.sandboxId();
  const code = async (argv, more) => (await t.exec(id, argv, more)).end.exit_code;
  assert.equal(await code(['sh', '-c', 'kill -9 $$']), 137);
  assert.equal(await code(['no-such-command-here']), 127);
  assert.equal(await code(['/etc/passwd']), 126);
  assert.equal(await code(['cat']), 0, 'stdin is empty');
  assert.equal((await t.exec(id, ['pwd'], { cwd: '/workspace' })).stdout.toString(), '/workspace\n');
});

check('bridge_exec_time_limit_responds_in_time_and_kills_the_tree', async (t) => {
  const name = uniqueMarker();
  const id = await t.sandboxId();
  // None of them exits by itself or on TERM, so a server that waits for them never responds.
  const line = `trap '' TERM; (setsid sh -c 'trap "" TERM; while :; do sleep 1; done' ${name}) & echo started; sleep 300`;
  const [ms, { stdout, stderr, end }] = await retryWithLongerLimits(
    (limit) => t.exec(id, ['bash', '-c', line], { timeout_ms: limit }),
    (reply) => reply.stdout.length > 0,
  );
  assert.deepEqual([stdout.toString(), end.exit_code], ['started\n', 124]);
  assert.match(stderr.toString(), new RegExp(`timed out after ${ms}ms`));
  await eventually('the tree is killed', async () => (await t.countProcesses(name)) === 0);
});

check('bridge_exec_output_of_20_megabytes_and_of_invalid_utf8_is_exact', async (t) => {
  const id = await t.sandboxId();
  const { stdout } = await t.exec(id, ['sh', '-c', printNumbers(20_000_000)]);
  assert.ok(stdout.equals(numbers(20_000_000)));
  const { stdout: bytes, events } = await t.exec(id, ['bash', '-c', String.raw`printf '\xff\x00\xe2'; sleep 0.2; printf '\x82\xac\xf0\x9f'`]);
  assert.deepEqual([...bytes], [0xff, 0, 0xe2, 0x82, 0xac, 0xf0, 0x9f]);
  const pieces = events.filter(({ name }) => name === 'stdout').map(({ data }) => Buffer.from(data, 'base64').toString('hex'));
  assert.ok(pieces.some((hex) => hex.includes('e282ac')), 'a character is not split over events');
  // This client decodes each event separately.
  const session = await t.bridge();
  assert.match(await session.execCommand({ cmd: String.raw`printf '\342'; sleep 0.2; printf '\202\254'` }), /Output:\n\u20ac$/);
});

check('bridge_exec_kills_the_command_when_its_client_disconnects', async (t) => {
  const name = uniqueMarker();
  const id = await t.sandboxId();
  const { request, response } = await open(`${t.url}/v1/sandbox/${id}/exec`, { body: { argv: ['bash', '-c', `exec -a ${name} sleep 300`] } });
  assert.equal(response.statusCode, 200);
  await eventually('it runs', async () => (await t.countProcesses(name)) === 1);
  request.destroy();
  await eventually('it no longer exists', async () => (await t.countProcesses(name)) === 0);
});

// Regression (cloudflare/sandbox-sdk#765): each exec leaves a record.
check('bridge_1000_execs_leave_no_records', async (t) => {
  await waitForConcurrentChecks();
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
  // Other records may disappear meanwhile; none may be added.
  const after = await list();
  assert.deepEqual(after[0], before[0]);
  assert.deepEqual(after[1].filter((other) => !before[1].includes(other)), []);
}, { seconds: 180 });

check('bridge_session_accepts_json_or_no_body', async (t) => {
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

check('bridge_sessions_keep_state_and_belong_to_one_sandbox', async (t) => {
  const id = await t.sandboxId();
  const created = await t.post(`/v1/sandbox/${id}/session`, { id: 'mine', cwd: '/usr', env: { A: '1' } });
  assert.deepEqual([created.status, created.json], [200, { id: 'mine' }]);
  const headers = { 'session-id': 'mine' };
  assert.equal((await t.exec(id, ['sh', '-c', 'pwd; echo $A'], { headers })).stdout.toString(), '/usr\n1\n');
  await t.exec(id, ['export', 'B=two words'], { headers });
  assert.equal((await t.exec(id, ['sh', '-c', 'echo "$B"'], { headers })).stdout.toString(), 'two words\n');
  const twice = await t.post(`/v1/sandbox/${id}/session`, { id: 'mine' });
  assert.deepEqual([twice.status, twice.json.code], [502, 'session_error']);
  const other = await t.sandboxId();
  assert.equal((await t.exec(other, ['sh', '-c', 'echo "[$B]"'], { headers })).stdout.toString(), '[]\n', 'sandboxes do not share sessions');
  const late = await t.exec(id, ['sleep', '300'], { headers, timeout_ms: 400 });
  assert.deepEqual(late.end, { name: 'exit', exit_code: 124 });
  const unnamed = await t.post(`/v1/sandbox/${id}/session`, undefined);
  assert.ok(unnamed.json.id);
  for (const wrong of ['a..b', 'a b', 'x'.repeat(129)]) {
    assert.equal((await t.post(`/v1/sandbox/${id}/exec`, { argv: ['true'] }, { 'session-id': wrong })).status, 400, wrong);
  }
  const deleted = await t.raw('DELETE', `/v1/sandbox/${id}/session/mine`);
  assert.deepEqual([deleted.status, deleted.json.success, deleted.json.sessionId], [200, true, 'mine']);
  const again = await t.raw('DELETE', `/v1/sandbox/${id}/session/mine`);
  assert.deepEqual([again.status, again.json.code], [502, 'session_error']);
});

check('bridge_delete_stops_the_sandboxs_processes', async (t) => {
  const [id, other] = [await t.sandboxId(), await t.sandboxId()];
  const [name, kept] = [uniqueMarker(), uniqueMarker()];
  const begin = (sandbox, word, headers = {}) => open(`${t.url}/v1/sandbox/${sandbox}/exec`, { body: { argv: ['bash', '-c', `exec -a ${word} sleep 300`] }, headers });
  await begin(id, name);
  await begin(id, name, { 'session-id': 's' });
  const keeper = await begin(other, kept);
  t.cleanUpSteps.push(() => keeper.request.destroy());
  const pty = await t.socket(`${t.ws}/v1/sandbox/${id}/pty?${PLAIN_SHELL_QUERY}`);
  await pty.waitForFrame('ready');
  pty.send(Buffer.from(`exec -a ${name} sleep 300\n`));
  await eventually('all of them run', async () => (await t.countProcesses(name)) === 3 && (await t.countProcesses(kept)) === 1);
  assert.equal((await t.raw('DELETE', `/v1/sandbox/${id}`)).status, 204);
  await eventually('all are killed', async () => (await t.countProcesses(name)) === 0);
  assert.equal(await t.countProcesses(kept), 1);
  assert.equal((await t.raw('DELETE', `/v1/sandbox/${id}`)).status, 204, 'also without processes');
  assert.equal((await t.raw('DELETE', '/v1/sandbox/neverseen')).status, 204);
  assert.deepEqual((await t.raw('GET', `/v1/sandbox/${id}/running`)).json, { running: true }, 'the sandbox always runs');
});

check('bridge_mounts_tunnels_and_pools_are_unsupported', async (t) => {
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

checkConcurrently('bridge_client_types_into_its_terminal', async (t) => {
  const session = await t.bridge();
  const terminal = await startTerminal(session, 'echo from a $(tty | cut -c1-8)');
  await terminal.waitFor(/from a \/dev\/pts/);
  await terminal.type('echo ty""ped\n');
  await terminal.waitFor(/typed/);
  await terminal.type('exit 4\n');
  await terminal.waitFor(/exited with code 4/);
});

// In the original, all of them share one shell and mix their output.
check('bridge_terminals_without_a_session_are_separate', async (t) => {
  const id = await t.sandboxId();
  const both = await Promise.all([1, 2].map(() => t.socket(`${t.ws}/v1/sandbox/${id}/pty?cols=90&rows=30&${PLAIN_SHELL_QUERY}`)));
  for (const [n, { waitForFrame, send }] of both.entries()) {
    await waitForFrame('ready');
    send(Buffer.from(`stty -echo; WHO=${n}; sleep 0.3; echo i am $WHO; stty size\n`));
  }
  await both[0].bytes.waitFor('i am 0');
  await both[1].bytes.waitFor('i am 1');
  await both[1].bytes.waitFor('30 90');
  assert.doesNotMatch(both[0].bytes.text(), /i am 1/);
});

check('bridge_terminal_is_killed_10_seconds_after_its_socket_closes', async (t) => {
  const id = await t.sandboxId();
  const { waitForFrame, socket } = await t.socket(`${t.ws}/v1/sandbox/${id}/pty?${PLAIN_SHELL_QUERY}`);
  await waitForFrame('ready');
  const process = async () => (await t.native('GET', '/v1/processes?tty=true')).processes.find(({ annotations }) => annotations?.['cloudflare.sandbox'] === id);
  assert.equal((await process()).killAfterDetachMs, 10_000);
  socket.close();
  await eventually('no client is attached', async () => (await process()).attachments === 0);
});

check('bridge_terminal_of_a_session_is_shared', async (t) => {
  const id = await t.sandboxId();
  const first = await t.socket(`${t.ws}/v1/sandbox/${id}/pty?session=mine&${PLAIN_SHELL_QUERY}`);
  await first.waitForFrame('ready');
  first.send(Buffer.from('V=shared; echo o""k\n'));
  await first.bytes.waitFor('ok');
  const second = await t.socket(`${t.ws}/v1/sandbox/${id}/pty`, { headers: { 'session-id': 'mine' } });
  await second.waitForFrame('ready');
  second.send(Buffer.from('echo is $V\n'));
  await second.bytes.waitFor('is shared');
});

check('bridge_terminal_refuses_invalid_requests', async (t) => {
  const id = await t.sandboxId();
  for (const [path, why] of [[`/v1/sandbox/${id}/pty`, /upgrade/i], [`/v1/sandbox/${id}/pty?cols=NaN`, /valid numbers/], ['/v1/sandbox/NO/pty', /ID format/], [`/v1/sandbox/${id}/pty?session=a..b`, /session ID/i]]) {
    const { status, json } = await t.raw('GET', path);
    assert.deepEqual([status, json.code], [400, 'invalid_request'], path);
    assert.match(json.error, why);
  }
});

check('bridge_runs_32_execs_at_once', async (t) => {
  const id = await t.sandboxId();
  const gate = new Gate(t.cleanUpSteps);
  const all = [...Array(32).keys()].map((n) => t.exec(id, ['sh', '-c', `${gate.waitCommand}; echo ${n}`]));
  // None exits before all of them run.
  await gate.waitForArrivals(32);
  gate.release(32);
  (await withTimeout(TIMEOUT_MS, 'all replies', Promise.all(all))).forEach(({ stdout }, n) => assert.equal(stdout.toString(), `${n}\n`));
  assert.ok(uniqueName());
});
