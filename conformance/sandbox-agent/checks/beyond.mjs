// Features that the original API lacks. Raw requests where the SDK has no call.

import assert from 'node:assert/strict';
import { TIMEOUT_MS, withTimeout } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { readEvents } from '../support.mjs';

check('stdin_can_be_closed', async (t) => {
  const { id } = await t.startShell('cat; echo end; exit 3');
  await t.agent.sendProcessInput(id, { data: 'text ', encoding: 'utf8' });
  const reply = await t.raw('POST', `/v1/processes/${id}/stdin/close`);
  assert.ok(reply.ok, `status ${reply.status}`);
  assert.equal((await t.waitForExit(id)).exitCode, 3);
  assert.equal((await t.logBytes(id)).toString(), 'text end\n');
});

check('any_signal_can_be_sent', async (t) => {
  const { id } = await t.startShell('trap "echo usr1; exit 5" USR1; echo up; while :; do sleep 0.05; done');
  await t.waitForLog(id, 'up');
  const reply = await t.json('POST', `/v1/processes/${id}/signal`, { signal: 'SIGUSR1' });
  assert.ok(reply.ok, `status ${reply.status}`);
  assert.equal((await t.waitForExit(id)).exitCode, 5);
});

check('signal_of_a_death_is_reported', async (t) => {
  const kill9 = [9, 'SIGKILL', 'KILL'];
  const result = await t.runShell('kill -KILL $$');
  assert.ok(kill9.includes(result.signal), `run: signal ${result.signal}`);
  const { id } = await t.startShell('kill -KILL $$');
  const info = await t.waitForExit(id);
  assert.ok(kill9.includes(info.signal), `process: signal ${info.signal}`);
});

check('terminal_starts_with_the_requested_size', async (t) => {
  for (const size of [{ cols: 100, rows: 30 }, { pty: { cols: 100, rows: 30 } }]) {
    const { id } = await t.startShell('stty size; read line', { tty: true, ...size });
    const { bytes } = await t.follow(id);
    await bytes.waitForText('\r\n');
    assert.equal(bytes.text(), '30 100\r\n');
  }
});

check('wait_returns_at_the_exit', async (t) => {
  const { id } = await t.startShell('read line; exit 6');
  const waiting = t.json('POST', `/v1/processes/${id}/wait`, { timeoutMs: TIMEOUT_MS });
  await t.agent.sendProcessInput(id, { data: '\n', encoding: 'utf8' });
  const reply = await waiting;
  assert.ok(reply.ok, `status ${reply.status}`);
  assert.match(await reply.text(), /"exitCode":6\b/);
});

check('lifecycle_events_are_sent', async (t) => {
  const response = await t.raw('GET', '/v1/events', { headers: { accept: 'text/event-stream' } });
  assert.equal(response.status, 200);
  const { id } = await t.startShell('exit 0');
  await t.waitForExit(id);
  await t.agent.deleteProcess(id);
  const seen = [];
  await withTimeout(TIMEOUT_MS, 'the three events', (async () => {
    for await (const { event, data } of readEvents(response)) {
      if (data?.includes(id)) seen.push(event);
      if (event === 'process.deleted' && data.includes(id)) return;
    }
  })());
  const milestones = seen.filter((event) => event !== 'process.updated');
  assert.deepEqual(milestones, ['process.created', 'process.exited', 'process.deleted']);
});

check('tag_finds_the_process', async (t) => {
  const tag = `conformance-${process.pid}`;
  const { id } = await t.start({ command: 'sleep', args: ['300'], tag });
  assert.match(id, /^proc_/);
  assert.equal((await t.agent.getProcess(`tag:${tag}`)).id, id);
});

check('terminal_reattach_replays_missed_output', async (t) => {
  const { id } = await t.startShell('stty -echo; echo up; exec cat', { tty: true });
  await t.waitForLog(id, 'up\r\n');
  const first = await t.attach(id);
  first.session.close();
  await first.closed;
  await t.agent.sendProcessInput(id, { data: 'while away\n', encoding: 'utf8' });
  const socket = t.socket(`/v1/processes/${id}/connect?from=0`);
  const chunks = [];
  await withTimeout(TIMEOUT_MS, 'the whole output', new Promise((resolve, reject) => {
    socket.on('unexpected-response', (_, response) => reject(new Error(`status ${response.statusCode}`)));
    socket.on('message', (data, isBinary) => {
      if (isBinary) chunks.push(data);
      if (Buffer.concat(chunks).includes('while away\r\n')) resolve();
    });
  }));
  assert.equal(Buffer.concat(chunks).toString(), 'up\r\nwhile away\r\n');
});
