// Workspace files over the bridge.

import assert from 'node:assert/strict';
import { TIMEOUT_MS, withTimeout } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { uniqueName } from '../support.mjs';

/** A directory for this check alone. */
async function createDirectory(t) {
  const name = uniqueName('files');
  t.cleanUpSteps.push(() => t.native('POST', '/v1/processes/run', { command: 'rm', args: ['-rf', `/workspace/${name}`] }));
  return name;
}

const octets = { 'content-type': 'application/octet-stream' };

check('files_put_and_get_are_exact', async (t) => {
  const [id, name] = [await t.sandboxId(), await createDirectory(t)];
  const path = `/v1/sandbox/${id}/file/workspace/${name}/a%20b/ü%25.bin`;
  const bytes = Buffer.from([...Array(100_000).keys()].map((n) => n % 256));
  const put = await t.raw('PUT', path, { headers: octets, body: bytes });
  assert.deepEqual([put.status, put.json], [200, { ok: true }]);
  const got = await t.raw('GET', path);
  assert.equal(got.status, 200);
  assert.match(got.headers.get('content-type'), /octet-stream/);
  assert.ok(got.bytes.equals(bytes));
  const { stdout } = await t.exec(id, ['cat', `/workspace/${name}/a b/ü%.bin`]);
  assert.ok(stdout.equals(bytes), 'programs read the same bytes');
  await t.raw('PUT', path, { headers: octets, body: 'short' });
  assert.equal((await t.raw('GET', path)).text, 'short');
});

check('files_client_reads_writes_and_tests_for_existence', async (t) => {
  const name = await createDirectory(t);
  const session = await t.bridge();
  const editor = session.createEditor();
  await editor.createFile({ type: 'create_file', path: `${name}/hello.txt`, diff: '+one\n+two\n' });
  assert.equal(Buffer.from(await session.readFile({ path: `${name}/hello.txt` })).toString().trimEnd(), 'one\ntwo');
  assert.equal(await session.pathExists(`${name}/hello.txt`), true);
  assert.equal(await session.pathExists(`${name}/nothing`), false);
  const error = await session.readFile({ path: `${name}/nothing` }).catch((reason) => reason);
  assert.equal(error.name, 'SandboxWorkspaceReadNotFoundError');
});

check('files_outside_the_workspace_are_refused', async (t) => {
  const [id, name] = [await t.sandboxId(), await createDirectory(t)];
  const of = `/v1/sandbox/${id}/file`;
  for (const path of ['etc/passwd', 'workspace/..%2fetc%2fpasswd', 'workspaces/x', 'workspace%2f..%2f..%2fetc/passwd']) {
    const { status, json } = await t.raw('GET', `${of}/${path}`);
    assert.deepEqual([status, json?.code], [403, 'invalid_request'], path);
    assert.equal((await t.raw('PUT', `${of}/${path}`, { headers: octets, body: 'x' })).status, 403);
  }
  await t.exec(id, ['sh', '-c', `mkdir -p ${name}; cd ${name}; ln -s /etc/passwd file; ln -s /tmp out; ln -s ../../etc up; echo in > real; ln -s real fine`]);
  for (const path of ['file', 'out/x', 'up/passwd']) {
    const got = await t.raw('GET', `${of}/workspace/${name}/${path}`);
    assert.deepEqual([got.status, got.json.code], [403, 'invalid_request'], path);
    assert.equal((await t.raw('PUT', `${of}/workspace/${name}/${path}`, { headers: octets, body: 'x' })).status, 403, path);
  }
  assert.equal((await t.raw('GET', `${of}/workspace/${name}/fine`)).text, 'in\n');
});

check('files_that_are_missing_or_not_regular_are_refused', async (t) => {
  const [id, name] = [await t.sandboxId(), await createDirectory(t)];
  const of = `/v1/sandbox/${id}/file/workspace/${name}`;
  const missing = await t.raw('GET', `${of}/nothing`);
  assert.deepEqual([missing.status, missing.json.code], [404, 'workspace_read_not_found']);
  await t.exec(id, ['sh', '-c', `mkdir -p ${name}/directory; mkfifo ${name}/pipe`]);
  for (const other of ['directory', 'pipe']) {
    const { status } = await withTimeout(TIMEOUT_MS, other, t.raw('GET', `${of}/${other}`));
    assert.equal(status, 400, other);
  }
});

check('files_over_32_mebibytes_are_refused_and_change_nothing', async (t) => {
  const [id, name] = [await t.sandboxId(), await createDirectory(t)];
  const path = `/v1/sandbox/${id}/file/workspace/${name}/big`;
  const maxBytes = 32 * 1024 * 1024;
  assert.equal((await t.raw('PUT', path, { headers: octets, body: Buffer.alloc(maxBytes, 7) })).status, 200);
  const tooLarge = await t.raw('PUT', path, { headers: octets, body: Buffer.alloc(maxBytes + 1) });
  assert.deepEqual([tooLarge.status, tooLarge.json.code], [413, 'payload_too_large']);
  const got = await t.raw('GET', path);
  assert.ok(got.bytes.length === maxBytes && got.bytes.every((byte) => byte === 7));
  const tar = await t.raw('POST', `/v1/sandbox/${id}/hydrate`, { headers: octets, body: Buffer.alloc(maxBytes + 1) });
  assert.equal(tar.status, 413);
});

check('workspace_is_persisted_and_hydrated', async (t) => {
  const [name, session] = [await createDirectory(t), await t.bridge()];
  const id = session.state.sandboxId;
  await t.exec(id, ['sh', '-c', `mkdir -p ${name}/sub/empty ${name}/skip; cd ${name}; printf 'a\\0b' > sub/file; chmod 755 sub/file; ln -s sub/file link; echo no > skip/x`]);
  const raw = await t.raw('POST', `/v1/sandbox/${id}/persist?excludes=${name}/skip,./${name}/nothing`);
  assert.equal(raw.status, 200);
  await t.exec(id, ['rm', '-rf', name]);
  await session.hydrateWorkspace(new Uint8Array(raw.bytes));
  const { stdout } = await t.exec(id, ['sh', '-c', `cd ${name}; find . | sort; od -c sub/file | head -1; stat -c %a sub/file; readlink link`]);
  assert.equal(stdout.toString(), '.\n./link\n./sub\n./sub/empty\n./sub/file\n0000000   a  \\0   b\n755\nsub/file\n');
  const archive = await session.persistWorkspace();
  assert.ok(archive.length >= 1024, 'the client accepts the archive');
  for (const [path, status] of [[`persist?excludes=../x`, 400], ['hydrate', 400]]) {
    const reply = await t.raw('POST', `/v1/sandbox/${id}/${path}`, path === 'hydrate' ? { headers: octets, body: 'no archive'.repeat(100) } : {});
    assert.deepEqual([reply.status, reply.json.code], [status, 'invalid_request'], path);
  }
  assert.equal((await t.raw('POST', `/v1/sandbox/${id}/hydrate`, { headers: octets, body: '' })).status, 400);
});
