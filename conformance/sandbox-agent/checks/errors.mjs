// Errors.

import assert from 'node:assert/strict';
import { check } from '../../_shared/runner.mjs';
import { assertProblem, expectProblem } from '../support.mjs';

check('unknown_process_is_404', async (t) => {
  const id = 'proc_unknown';
  const calls = {
    get: () => t.agent.getProcess(id),
    stop: () => t.agent.stopProcess(id),
    kill: () => t.agent.killProcess(id),
    delete: () => t.agent.deleteProcess(id),
    logs: () => t.agent.getProcessLogs(id),
    input: () => t.agent.sendProcessInput(id, { data: '' }),
    resize: () => t.agent.resizeProcessTerminal(id, { cols: 80, rows: 24 }),
  };
  for (const [name, call] of Object.entries(calls)) {
    const problem = await expectProblem(call(), 404, { type: 'not_found' });
    assert.match(problem.detail, /proc_unknown/, name);
  }
});

check('create_blank_command_is_400', async (t) => {
  for (const command of ['', '  ']) {
    await expectProblem(t.agent.createProcess({ command }), 400, { type: 'invalid_request' });
  }
});

check('unknown_fields_are_ignored', async (t) => {
  const { id } = await t.start({ command: 'true', nonsense: { deep: [1] } });
  await t.waitForExit(id);
  assert.equal((await t.agent.runProcess({ command: 'true', nonsense: 1 })).exitCode, 0);
});

check('unknown_path_is_404_and_method_is_405', async (t) => {
  for (const path of ['/v1/nonsense', '/v1/processes/proc_unknown/nonsense']) {
    const reply = await t.raw('GET', path);
    assert.equal(reply.status, 404, path);
    assertProblem(await reply.json(), 404);
  }
  assert.equal((await t.raw('PUT', '/v1/processes/config')).status, 405);
});

check('last_event_id_must_be_a_number', async (t) => {
  const { id } = await t.start({ command: 'true' });
  const reply = await t.raw('GET', `/v1/processes/${id}/logs`, { headers: { 'last-event-id': 'x' } });
  assert.equal(reply.status, 400);
  assertProblem(await reply.json(), 400);
});

// ---- validation: one table, checked twice

const JSON_TYPE = { 'content-type': 'application/json' };
const post = (path, body, headers = JSON_TYPE) => (t) => t.raw('POST', path, { body, headers });
const INVALID = {
  'malformed JSON': [400, post('/v1/processes', '{"command":')],
  'missing field': [422, post('/v1/processes', '{}')],
  'wrong type': [422, post('/v1/processes', '{"command":"true","args":"x"}')],
  'wrong type in run': [422, post('/v1/processes/run', '{"command":"true","timeoutMs":"soon"}')],
  'negative timeout': [422, post('/v1/processes/run', '{"command":"true","timeoutMs":-1}')],
  'no content type': [415, post('/v1/processes', new TextEncoder().encode('{"command":"true"}'), {})],
  'other content type': [415, post('/v1/processes/run', '{"command":"true"}', { 'content-type': 'text/plain' })],
  'unknown owner': [400, (t) => t.raw('GET', '/v1/processes', { query: { owner: 'unknown' } })],
  'unknown stream': [400, (t, id) => t.raw('GET', `/v1/processes/${id}/logs`, { query: { stream: 'stdin' } })],
  'negative tail': [400, (t, id) => t.raw('GET', `/v1/processes/${id}/logs`, { query: { tail: '-1' } })],
  'since is no number': [400, (t, id) => t.raw('GET', `/v1/processes/${id}/logs`, { query: { since: 'x' } })],
  'negative waitMs': [400, (t, id) => t.raw('POST', `/v1/processes/${id}/stop`, { query: { waitMs: '-1' } })],
  'size too large': [422, (t, id) => t.json('POST', `/v1/processes/${id}/terminal/resize`, { cols: 65_536, rows: 1 })],
  'not an upgrade': [400, (t, id) => t.raw('GET', `/v1/processes/${id}/terminal/ws`)],
};

check('validation_errors_have_the_original_statuses', async (t) => {
  const { id } = await t.start({ command: 'sleep', args: ['300'], tty: true });
  for (const [name, [status, ask]] of Object.entries(INVALID)) {
    assert.equal((await ask(t, id)).status, status, name);
  }
  assert.equal((await t.agent.getProcess(id)).status, 'running');
});

check('validation_errors_are_problems', async (t) => {
  const { id } = await t.start({ command: 'sleep', args: ['300'], tty: true });
  for (const [name, [status, ask]] of Object.entries(INVALID)) {
    const reply = await ask(t, id);
    assert.equal(reply.headers.get('content-type'), 'application/problem+json', name);
    const problem = await reply.json();
    assertProblem(problem, status);
    assert.match(problem.code ?? '', /^[a-z][a-z0-9_]+$/, `code for ${name}`);
  }
});

check('errors_have_a_stable_code', async (t) => {
  const { id } = await t.start({ command: 'sleep', args: ['300'] });
  const provoke = {
    unknown: () => t.raw('GET', '/v1/processes/proc_unknown'),
    running: () => t.raw('DELETE', `/v1/processes/${id}`),
    'no terminal': () => t.json('POST', `/v1/processes/${id}/terminal/resize`, { cols: 1, rows: 1 }),
    'no path': () => t.raw('GET', '/v1/nonsense'),
    'no method': () => t.raw('PUT', '/v1/processes/config'),
    large: () => t.json('POST', `/v1/processes/${id}/input`, { data: 'x'.repeat(65_537), encoding: 'utf8' }),
  };
  const codes = [];
  for (const [name, ask] of Object.entries(provoke)) {
    const [first, second] = [await ask(), await ask()];
    assert.equal(first.headers.get('content-type'), 'application/problem+json', name);
    const { code } = await first.json();
    assert.match(code ?? '', /^[a-z][a-z0-9_]+$/, `code for ${name}`);
    assert.equal((await second.json()).code, code, name);
    codes.push(code);
  }
  // The codes differ because clients react to them differently.
  assert.equal(new Set(codes.slice(0, 3)).size, 3, `codes ${codes}`);
});

// ---- spawn failures are client errors with distinct codes

/** Sends the same spec by all three calls. */
async function spawnRefused(t, request, code) {
  const before = (await t.agent.listProcesses()).processes.length;
  await expectProblem(t.agent.runProcess(request), 400, { code });
  await expectProblem(t.agent.createProcess(request), 400, { code });
  await expectProblem(t.agent.createProcess({ ...request, tty: true }), 400, { code });
  const { processes } = await t.agent.listProcesses();
  assert.equal(processes.length, before, 'a failed start leaves no record');
}

check('spawn_of_a_missing_command_is_refused', async (t) => {
  await spawnRefused(t, { command: 'no-such-command-anywhere' }, 'command_not_found');
  await spawnRefused(t, { command: '/no/such/command' }, 'command_not_found');
  await spawnRefused(t, { command: 'head -c 3' }, 'command_not_found');
  await spawnRefused(t, { command: 'sh', env: { PATH: '/nonexistent' } }, 'command_not_found');
});

check('spawn_in_a_missing_cwd_is_refused', (t) => spawnRefused(t, { command: 'true', cwd: '/no/such/directory' }, 'cwd_not_found'));

check('spawn_in_a_cwd_that_is_a_file_is_refused', async (t) => {
  const { code } = await expectProblem(t.agent.createProcess({ command: 'true', cwd: '/etc/passwd' }), 400);
  assert.match(code ?? '', /cwd/);
});

check('spawn_of_a_non_executable_file_is_refused', async (t) => {
  await spawnRefused(t, { command: '/etc/passwd' }, 'not_executable');
  await spawnRefused(t, { command: '/etc' }, 'not_executable');
});

check('spawn_with_too_long_arguments_is_refused', (t) =>
  spawnRefused(t, { command: 'true', args: ['x'.repeat(200_000)] }, 'args_too_long'));

check('spawn_with_nul_in_an_argument_is_refused', async (t) => {
  const { code } = await expectProblem(t.agent.createProcess({ command: 'true', args: ['a\0b'] }), 400);
  assert.match(code ?? '', /^[a-z][a-z0-9_]+$/);
});
