// Clients that do not read, and those who are not to notice.

import assert from 'node:assert/strict';
import { eventually, within } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { alone } from '../early.mjs';
import { STATELESS, open } from '../support.mjs';

/** How long the 99th of a hundred calls takes while something else goes on. */
async function p99(t) {
  const times = [];
  for (let n = 0; n < 200; n += 1) {
    const begun = performance.now();
    await t.native('GET', '/v1/health');
    times.push(performance.now() - begun);
  }
  return times.sort((a, b) => a - b)[197];
}

check('stuck_readers_of_every_kind_delay_nobody', async (t) => {
  await alone();
  const flood = 'head -c 100000000 /dev/zero | tr "\\0" x; sleep 300';
  const { processId } = await t.start(flood);
  const stuck = await Promise.all([
    open(`${t.url}/api/process/${processId}/stream`, { method: 'GET' }),
    open(`${t.url}/api/execute/stream`, { body: { command: flood, sessionId: STATELESS } }),
    open(`${t.url}/v1/sandbox/abc/exec`, { body: { argv: ['bash', '-c', flood] } }),
  ]);
  for (const { response, request } of stuck) {
    assert.equal(response.statusCode, 200);
    response.pause();
    t.atEnd.push(() => request.destroy());
  }
  const { say } = await t.socket(`${t.ws}/ws`, { reads: false });
  say({ type: 'request', id: 'x', method: 'GET', path: `/api/process/${processId}/stream` });
  const slowest = await p99(t);
  console.log(`# native health p99 beside stuck readers: ${slowest.toFixed(1)} ms`);
  assert.ok(slowest < 250, `${slowest} ms`);
  const begun = Date.now();
  assert.equal((await within(5_000, 'a command', t.run('echo on'))).stdout, 'on\n');
  assert.ok(Date.now() - begun < 3_000);
  await t.client().processes.listProcesses();
  const killed = Date.now();
  await t.client().processes.killProcess(processId);
  assert.ok(Date.now() - killed < 5_000, 'the kill does not wait either');
  for (const { request } of stuck) request.destroy();
  const { processes } = await t.native('GET', '/v1/processes?all=true&status=running');
  const left = processes.filter(({ args }) => args?.[1] === flood);
  // Some of them end with their reader.
  await Promise.all(left.map(({ id }) => t.native('POST', `/v1/processes/${id}/kill`).catch(() => {})));
}, { seconds: 60 });

check('processes_32_at_once', async (t) => {
  const started = await Promise.all([...Array(32).keys()].map((n) => t.start(`echo ${n}; sleep 300`)));
  const { processes } = t.client();
  for (const [n, { processId }] of started.entries()) {
    await eventually('its output', async () => (await processes.getProcessLogs(processId)).stdout === `${n}\n`);
  }
  const running = new Set((await processes.listProcesses()).processes.filter(({ status }) => status === 'running').map(({ id }) => id));
  assert.ok(started.every(({ processId }) => running.has(processId)));
  await Promise.all(started.map(({ processId }) => processes.killProcess(processId)));
});
