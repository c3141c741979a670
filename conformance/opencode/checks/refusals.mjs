// What makes no sense gets a clear answer, and never a server error.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check } from '../../_shared/frame.mjs';
import { refused } from '../support.mjs';

// There: 500.
check('beyond_missing_command_is_the_callers_mistake', async (t) => {
  const error = refused(await t.second.pty.create({ command: '/no/such/program' }), 400);
  assert.equal(error.name, 'BadRequest');
  assert.match(error.data.message, /\/no\/such\/program: command not found/);
  refused(await t.first.pty.create({ body: { command: 'no-such-program' } }), 400);
});

check('beyond_file_that_is_no_program_is_the_callers_mistake', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'outlive-conformance-'));
  t.atEnd.push(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'plain');
  writeFileSync(file, 'text');
  assert.match(refused(await t.second.pty.create({ command: file }), 400).data.message, /cannot be executed/);
});

// There: 200, and it runs in the home folder.
check('beyond_bad_cwd_is_refused', async (t) => {
  const error = refused(await t.second.pty.create({ command: 'cat', cwd: '/no/such/folder' }), 400);
  assert.match(error.data.message, /\/no\/such\/folder does not exist/);
  refused(await t.secondWith({ directory: '/no/such' }).pty.create({ command: 'cat' }), 400);
});

check('refused_sizes_say_what_was_expected', async (t) => {
  const pty = await t.pty('exec cat');
  for (const [size, expected] of [
    [{ rows: 0, cols: 80 }, 'Expected a value greater than 0, got 0\n  at ["size"]["rows"]'],
    [{ rows: 24, cols: -1 }, 'Expected a value greater than 0, got -1\n  at ["size"]["cols"]'],
    [{ rows: 24, cols: 70_000 }, 'Expected a value less than or equal to 65535, got 70000\n  at ["size"]["cols"]'],
  ]) {
    const error = refused(await t.second.pty.update({ ptyID: pty.id, size }), 400);
    assert.deepEqual(error, { name: 'BadRequest', data: { message: expected, kind: 'Payload' } });
  }
  assert.equal(refused(await t.second.pty.update({ ptyID: pty.id, size: { rows: 1.5, cols: 1 } }), 400).name, 'BadRequest');
  assert.equal(refused(await t.second.pty.update({ ptyID: pty.id, size: { rows: 1 } }), 400).data.kind, 'Payload');
});

check('refused_ids_and_bodies', async (t) => {
  assert.equal(refused(await t.second.pty.get({ ptyID: 'proc_1' }), 400).data.kind, 'Params');
  assert.equal(refused(await t.second.pty.get({ ptyID: 'pty_nobody' }), 404)._tag, 'PtyNotFoundError');
  assert.equal(refused(await t.first.pty.get({ path: { id: 'pty_' } }), 404).ptyID, 'pty_');
  for (const body of ['{', '[]', '{"args":"x"}', '{"env":{"A":1}}', '"x"', 'null']) {
    const { status, json } = await t.raw('POST', '/pty', { body, headers: { 'content-type': 'application/json' } });
    assert.deepEqual([status, json.name], [400, 'BadRequest'], body);
  }
  const { status } = await t.raw('POST', '/pty', { body: '{}', headers: { 'content-type': 'text/plain' } });
  assert.ok(status === 415 || status === 400, `a page could send that: ${status}`);
  refused(await t.second.pty.create({ command: 'cat', title: 'a\nb' }), 400);
  const unknownKeys = await t.raw('POST', '/pty', { body: '{"command":"true","nobody":1}', headers: { 'content-type': 'application/json' } });
  assert.equal(unknownKeys.status, 200, 'keys that nobody knows are ignored');
});

check('refused_calls_throw_with_a_message_where_asked_to', async (t) => {
  const error = await t.second.pty.get({ ptyID: 'pty_nobody' }, { throwOnError: true }).then(() => assert.fail('no error'), (reason) => reason);
  assert.equal(error.message, 'PTY session not found: pty_nobody');
  assert.deepEqual([error.cause.status, error.cause.body._tag], [404, 'PtyNotFoundError']);
});
