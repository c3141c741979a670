// One process, seen by the native API and by E2B.

import assert from 'node:assert/strict';
import { WebSocket } from 'undici';
import { eventually, expectRejection } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';

check('native_lists_attaches_to_and_kills_an_e2b_process', async (t) => {
  const handle = await t.background('echo hello; cat', { stdin: true, envs: { A: 'b' } });
  await eventually('hello', () => handle.stdout === 'hello\n');
  const { processes } = await t.native('GET', '/v1/processes?status=running');
  const found = processes.find(({ pid }) => pid === handle.pid);
  assert.deepEqual([found.command, found.tty, found.attachments], ['/bin/bash', false, 1]);
  const socket = new WebSocket(`${t.base.replace('http', 'ws')}/v1/processes/${found.id}/connect?from=0&framing=raw`);
  t.cleanUpSteps.push(() => socket.close());
  socket.binaryType = 'arraybuffer';
  let seen = '';
  let changed = () => {};
  socket.onmessage = ({ data }) => { if (typeof data !== 'string') { seen += Buffer.from(data); changed(); } };
  await new Promise((resolve, reject) => { socket.onopen = resolve; socket.onerror = () => reject(new Error('no socket')); });
  socket.send(Buffer.from('typed\n'));
  await eventually('both clients receive it', () => seen === 'hello\ntyped\n' && handle.stdout === 'hello\ntyped\n');
  await t.native('POST', `/v1/processes/${found.id}/kill`);
  await expectRejection(handle.wait(), 'CommandExitError', /signal: killed/);
  assert.equal((await t.info(handle.pid)).exitReason, 'killed');
}, { seconds: 60 });

check('native_process_is_listed_by_e2b_without_its_environment', async (t) => {
  const created = await t.native('POST', '/v1/processes', { command: 'echo from native; cat', shell: true, tag: 'from-native', env: { SECRET: 's' } });
  t.pids.add(created.pid);
  const sandbox = await t.sandbox();
  const found = (await sandbox.commands.list()).find(({ pid }) => pid === created.pid);
  assert.deepEqual([found.cmd, found.args, found.tag, found.envs], ['/bin/sh', ['-c', 'echo from native; cat'], 'from-native', {}]);
  const handle = await sandbox.commands.connect(created.pid, { timeoutMs: 0 });
  await eventually('its output', () => handle.stdout === 'from native\n');
  await handle.sendStdin('hi\n');
  await eventually('its reply', () => handle.stdout === 'from native\nhi\n');
  assert.equal(await handle.kill(), true);
});

check('native_finds_exited_processes_by_pid_and_annotation', async (t) => {
  const { events } = await t.collectStream('Start', t.start('/bin/sh', ['-c', 'echo x; exit 6'], { tag: 'a-tag-to-find' }));
  const { pid } = events[0].start;
  const info = await t.info(pid);
  assert.deepEqual([info.status, info.exitCode, info.annotations['e2b.tag']], ['exited', 6, 'a-tag-to-find']);
  const { processes } = await t.native('GET', '/v1/processes?annotation=e2b.tag=a-tag-to-find');
  assert.deepEqual(processes.map(({ id }) => id), [info.id]);
  assert.equal(info.resumeOffset, 2);
});
