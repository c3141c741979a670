// Invalid requests get a clear error, never a server error.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check } from '../../_shared/runner.mjs';
import { expectError } from '../support.mjs';

// The original responds with 500.
check('beyond_missing_command_is_a_client_error', async (t) => {
  const error = expectError(await t.sdkV2.pty.create({ command: '/no/such/program' }), 400);
  assert.equal(error.name, 'BadRequest');
  assert.match(error.data.message, /\/no\/such\/program: command not found/);
  expectError(await t.sdkV1.pty.create({ body: { command: 'no-such-program' } }), 400);
});

check('beyond_non_executable_file_is_a_client_error', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'outlive-conformance-'));
  t.cleanUpSteps.push(() => rmSync(directory, { recursive: true }));
  const file = join(directory, 'plain');
  writeFileSync(file, 'text');
  assert.match(expectError(await t.sdkV2.pty.create({ command: file }), 400).data.message, /cannot execute/);
});

// The original responds with 200 and runs it in the home directory.
check('beyond_bad_cwd_is_refused', async (t) => {
  const error = expectError(await t.sdkV2.pty.create({ command: 'cat', cwd: '/no/such/directory' }), 400);
  assert.match(error.data.message, /\/no\/such\/directory does not exist/);
  expectError(await t.sdkV2With({ directory: '/no/such' }).pty.create({ command: 'cat' }), 400);
});

check('refused_sizes_state_the_expected_values', async (t) => {
  const pty = await t.pty('exec cat');
  for (const [size, expected] of [
    [{ rows: 0, cols: 80 }, 'Expected a value greater than 0, got 0\n  at ["size"]["rows"]'],
    [{ rows: 24, cols: -1 }, 'Expected a value greater than 0, got -1\n  at ["size"]["cols"]'],
    [{ rows: 24, cols: 70_000 }, 'Expected a value less than or equal to 65535, got 70000\n  at ["size"]["cols"]'],
  ]) {
    const error = expectError(await t.sdkV2.pty.update({ ptyID: pty.id, size }), 400);
    assert.deepEqual(error, { name: 'BadRequest', data: { message: expected, kind: 'Payload' } });
  }
  assert.equal(expectError(await t.sdkV2.pty.update({ ptyID: pty.id, size: { rows: 1.5, cols: 1 } }), 400).name, 'BadRequest');
  assert.equal(expectError(await t.sdkV2.pty.update({ ptyID: pty.id, size: { rows: 1 } }), 400).data.kind, 'Payload');
});

check('invalid_ids_and_bodies_are_refused', async (t) => {
  assert.equal(expectError(await t.sdkV2.pty.get({ ptyID: 'proc_1' }), 400).data.kind, 'Params');
  assert.equal(expectError(await t.sdkV2.pty.get({ ptyID: 'pty_unknown' }), 404)._tag, 'PtyNotFoundError');
  assert.equal(expectError(await t.sdkV1.pty.get({ path: { id: 'pty_' } }), 404).ptyID, 'pty_');
  for (const body of ['{', '[]', '{"args":"x"}', '{"env":{"A":1}}', '"x"', 'null']) {
    const { status, json } = await t.raw('POST', '/pty', { body, headers: { 'content-type': 'application/json' } });
    assert.deepEqual([status, json.name], [400, 'BadRequest'], body);
  }
  const { status } = await t.raw('POST', '/pty', { body: '{}', headers: { 'content-type': 'text/plain' } });
  assert.ok(status === 415 || status === 400, `a page could send that: ${status}`);
  expectError(await t.sdkV2.pty.create({ command: 'cat', title: 'a\nb' }), 400);
  const unknownKeys = await t.raw('POST', '/pty', { body: '{"command":"true","unknown":1}', headers: { 'content-type': 'application/json' } });
  assert.equal(unknownKeys.status, 200, 'unknown keys are ignored');
});

check('refused_calls_throw_with_a_message_with_throwOnError', async (t) => {
  const error = await t.sdkV2.pty.get({ ptyID: 'pty_unknown' }, { throwOnError: true }).then(() => assert.fail('no error'), (reason) => reason);
  assert.equal(error.message, 'PTY session not found: pty_unknown');
  assert.deepEqual([error.cause.status, error.cause.body._tag], [404, 'PtyNotFoundError']);
});
