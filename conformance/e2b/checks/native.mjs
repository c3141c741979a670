// One process, seen from both sides.

import assert from 'node:assert/strict';
import { WebSocket } from 'undici';
import { eventually, refused } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';

check('native_lists_attaches_and_kills_what_e2b_started', async (t) => {
  const handle = await t.background('echo hello; cat', { stdin: true, envs: { A: 'b' } });
  await eventually('hello', () => handle.stdout === 'hello\n');
  const { processes } = await t.native('GET', '/v1/processes?status=running');
  const found = processes.find(({ pid }) => pid === handle.pid);
  assert.deepEqual([found.command, found.tty, found.attachments], ['/bin/bash', false, 1]);
  const socket = new WebSocket(`${t.base.replace('http', 'ws')}/v1/processes/${found.id}/connect?from=0&framing=raw`);
  t.atEnd.push(() => socket.close());
  socket.binaryType = 'arraybuffer';
  let seen = '';
  let changed = () => {};
  socket.onmessage = ({ data }) => { if (typeof data !== 'string') { seen += Buffer.from(data); changed(); } };
  await new Promise((resolve, reject) => { socket.onopen = resolve; socket.onerror = () => reject(new Error('no socket')); });
  socket.send(Buffer.from('typed\n'));
  await eventually('both see it', () => seen === 'hello\ntyped\n' && handle.stdout === 'hello\ntyped\n');
  await t.native('POST', `/v1/processes/${found.id}/kill`);
  await refused(handle.wait(), 'CommandExitError', /signal: killed/);
  assert.equal((await t.info(handle.pid)).exitReason, 'killed');
}, { seconds: 60 });

check('native_started_process_is_seen_by_e2b_without_its_variables', async (t) => {
  const made = await t.native('POST', '/v1/processes', { command: 'echo from native; cat', shell: true, tag: 'from-native', env: { SECRET: 's' } });
  t.pids.add(made.pid);
  const sandbox = await t.sandbox();
  const found = (await sandbox.commands.list()).find(({ pid }) => pid === made.pid);
  assert.deepEqual([found.cmd, found.args, found.tag, found.envs], ['/bin/sh', ['-c', 'echo from native; cat'], 'from-native', {}]);
  const handle = await sandbox.commands.connect(made.pid, { timeoutMs: 0 });
  await eventually('its output', () => handle.stdout === 'from native\n');
  await handle.sendStdin('hi\n');
  await eventually('its answer', () => handle.stdout === 'from native\nhi\n');
  assert.equal(await handle.kill(), true);
});

check('native_finds_by_pid_and_annotation_also_who_has_ended', async (t) => {
  const { events } = await t.whole('Start', t.start('/bin/sh', ['-c', 'echo x; exit 6'], { tag: 'a-tag-to-find' }));
  const { pid } = events[0].start;
  const info = await t.info(pid);
  assert.deepEqual([info.status, info.exitCode, info.annotations['e2b.tag']], ['exited', 6, 'a-tag-to-find']);
  const { processes } = await t.native('GET', '/v1/processes?annotation=e2b.tag=a-tag-to-find');
  assert.deepEqual(processes.map(({ id }) => id), [info.id]);
  assert.equal(info.resumeOffset, 2);
});
