// Input and closing stdin.

import assert from 'node:assert/strict';
import { TIMEOUT_MS, numbers, expectRejection, withTimeout } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { envelope, envelopes, post } from '../support.mjs';

check('sendInput_reaches_the_program', async (t) => {
  const handle = await t.background('cat', { stdin: true });
  await handle.sendStdin('one\n');
  await handle.sendStdin(new Uint8Array([0, 0xff, 0x0a]));
  await t.waitForOutput(handle.pid, '(?s-u)one\\n\\x00\\xff\\n');
  await handle.closeStdin();
  await handle.wait();
  assert.deepEqual(await t.nativeOutput(handle.pid), Buffer.from('one\n\0\xff\n', 'latin1'));
});

// Regression (e2b-dev/infra#1761, e2b-dev/E2B#1397).
check('closeStdin_is_end_of_file_and_idempotent', async (t) => {
  const handle = await t.background('cat; echo closed; sleep 300', { stdin: true });
  await handle.sendStdin('x');
  await handle.closeStdin();
  await t.waitForOutput(handle.pid, 'xclosed');
  await handle.closeStdin();
  const never = await t.background('sleep 300');
  await never.closeStdin();
  assert.equal((await t.call('CloseStdin', { process: { pid: handle.pid } })).bytes.toString(), '{}');
});

check('input_refusals_state_the_reason', async (t) => {
  const open = await t.background('sleep 300', { stdin: true });
  const shut = await t.background('sleep 300');
  const tty = await t.terminal();
  const send = async (pid, input) => (await t.call('SendInput', { process: { pid }, input })).json;
  assert.match((await send(shut.pid, { stdin: 'eA==' })).message, /stdin not enabled or closed/);
  await expectRejection(shut.sendStdin('x'), 'SandboxError', /stdin not enabled or closed/);
  assert.match((await send(tty.handle.pid, { stdin: 'eA==' })).message, /tty assigned to process/);
  assert.match((await send(open.pid, { pty: 'eA==' })).message, /tty not assigned/);
  assert.equal((await send(open.pid, {})).code, 'unimplemented');
  assert.equal((await send(open.pid, { stdin: '!' })).code, 'invalid_argument');
  assert.deepEqual(await send(open.pid, { stdin: '' }), {}, 'empty input is accepted');
  const close = await t.call('CloseStdin', { process: { pid: tty.handle.pid } });
  assert.match(close.json.message, /Ctrl-D/);
  await expectRejection((await t.sandbox()).commands.sendStdin(999999, 'x'), 'NotFoundError', /pid 999999 not found/);
});

// In the original a full pipe blocks the call, and closeStdin after it, until the program exits.
check('input_that_is_not_read_is_refused_in_time_and_blocks_no_other_call', async (t) => {
  const handle = await t.background('sleep 300', { stdin: true });
  const other = await t.background('cat', { stdin: true });
  const stalled = t.call('SendInput', { process: { pid: handle.pid }, input: { stdin: Buffer.alloc(300_000).toString('base64') } });
  await other.sendStdin('through\n');
  await t.waitForOutput(other.pid, 'through');
  const sandbox = await t.sandbox();
  assert.ok((await sandbox.commands.list()).length >= 2);
  const { status, json } = await withTimeout(TIMEOUT_MS, 'the refusal', stalled);
  assert.deepEqual([status, json.code], [429, 'resource_exhausted']);
});

check('input_that_waits_fails_when_the_process_is_killed', async (t) => {
  const handle = await t.background('sleep 300', { stdin: true });
  const stalled = t.call('SendInput', { process: { pid: handle.pid }, input: { stdin: Buffer.alloc(300_000).toString('base64') } });
  assert.equal(await handle.kill(), true);
  // The pipe breaks a moment before the exit is recorded.
  assert.match((await withTimeout(TIMEOUT_MS, 'the failure of the write', stalled)).json.code, /^(not_found|failed_precondition)$/);
});

check('input_of_a_megabyte_is_exact', async (t) => {
  const bytes = numbers(1_000_000);
  const handle = await t.background('cksum', { stdin: true });
  await handle.sendStdin(new Uint8Array(bytes));
  await handle.closeStdin();
  const { stdout } = await handle.wait();
  const here = await t.run(`seq 1 1000000 | head -c 1000000 | cksum`);
  assert.equal(stdout, here.stdout);
});

const streamInput = (t, write) =>
  post(`${t.url}/process.Process/StreamInput`, undefined, {
    'content-type': 'application/connect+json', 'connect-protocol-version': '1', 'transfer-encoding': 'chunked',
  }, { write });

async function readEnvelopes(response) {
  const all = [];
  for await (const { flags, payload } of envelopes(response)) all.push([flags, JSON.parse(payload.toString())]);
  return all;
}

check('streamInput_writes_each_part_as_it_arrives', async (t) => {
  const handle = await t.background('cat', { stdin: true });
  const part = (message) => envelope(0, Buffer.from(JSON.stringify(message)));
  const { response } = await streamInput(t, async (request) => {
    request.write(part({ start: { process: { pid: handle.pid } } }));
    request.write(part({ keepalive: {} }));
    const first = part({ data: { input: { stdin: Buffer.from('one\n').toString('base64') } } });
    request.write(first.subarray(0, 7));
    request.write(first.subarray(7));
    // The first part is written although the request has not ended.
    await t.waitForOutput(handle.pid, 'one');
    request.write(part({ data: { input: { stdin: Buffer.from('two\n').toString('base64') } } }));
  });
  assert.deepEqual(await readEnvelopes(response), [[0, {}], [2, {}]]);
  await t.waitForOutput(handle.pid, 'two');
});

check('streamInput_errors_are_in_the_end_envelope', async (t) => {
  const handle = await t.background('cat', { stdin: true });
  const end = async (...messages) => (await t.collectStream('StreamInput', messages)).end.error;
  assert.equal((await end({ start: { process: { pid: 999999 } } })).code, 'not_found');
  assert.equal((await end({ data: { input: { stdin: 'eA==' } } })).code, 'invalid_argument');
  assert.equal((await end()).code, 'invalid_argument');
  const start = { start: { process: { pid: handle.pid } } };
  assert.equal((await end(start, { data: { input: { pty: 'eA==' } } })).code, 'failed_precondition');
  assert.equal((await end(start, start)).code, 'invalid_argument');
});
