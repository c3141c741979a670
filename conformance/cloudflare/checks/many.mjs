// Stalled clients, and many processes at once.

import assert from 'node:assert/strict';
import { TIMEOUT_MS, eventually, withTimeout } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { waitForConcurrentChecks } from '../concurrent.mjs';
import { STATELESS, open } from '../support.mjs';

/** Calls /v1/health 200 times. The latency is printed but not asserted; the calls must succeed. */
async function pollHealth(t) {
  const times = [];
  for (let n = 0; n < 200; n += 1) {
    const started = performance.now();
    await withTimeout(TIMEOUT_MS, 'health', t.native('GET', '/v1/health'));
    times.push(performance.now() - started);
  }
  console.log(`# native health p99 beside stalled readers: ${times.sort((a, b) => a - b)[197].toFixed(1)} ms`);
}

check('stalled_readers_do_not_delay_other_clients', async (t) => {
  await waitForConcurrentChecks();
  const flood = 'head -c 100000000 /dev/zero | tr "\\0" x; sleep 300';
  const { processId } = await t.start(flood);
  const stalled = await Promise.all([
    open(`${t.url}/api/process/${processId}/stream`, { method: 'GET' }),
    open(`${t.url}/api/execute/stream`, { body: { command: flood, sessionId: STATELESS } }),
    open(`${t.url}/v1/sandbox/abc/exec`, { body: { argv: ['bash', '-c', flood] } }),
  ]);
  for (const { response, request } of stalled) {
    assert.equal(response.statusCode, 200);
    response.pause();
    t.cleanUpSteps.push(() => request.destroy());
  }
  const { send } = await t.socket(`${t.ws}/ws`, { reads: false });
  send({ type: 'request', id: 'x', method: 'GET', path: `/api/process/${processId}/stream` });
  await eventually('more output than connections buffer', async () => (await t.info(processId)).outputEnd > 8_000_000);
  // All of these respond while the readers are stalled.
  await pollHealth(t);
  assert.equal((await withTimeout(TIMEOUT_MS, 'a command', t.run('echo on'))).stdout, 'on\n');
  await withTimeout(TIMEOUT_MS, 'the list', t.client().processes.listProcesses());
  await withTimeout(TIMEOUT_MS, 'the kill', t.client().processes.killProcess(processId));
  for (const { request } of stalled) request.destroy();
  const { processes } = await t.native('GET', '/v1/processes?all=true&status=running');
  const left = processes.filter(({ args }) => args?.[1] === flood);
  // Some of them were killed with their reader.
  await Promise.all(left.map(({ id }) => t.native('POST', `/v1/processes/${id}/kill`).catch(() => {})));
}, { seconds: 120 });

check('process_start_runs_32_at_once', async (t) => {
  const started = await Promise.all([...Array(32).keys()].map((n) => t.start(`echo ${n}; sleep 300`)));
  const { processes } = t.client();
  for (const [n, { processId }] of started.entries()) {
    await eventually('its output', async () => (await processes.getProcessLogs(processId)).stdout === `${n}\n`);
  }
  const running = new Set((await processes.listProcesses()).processes.filter(({ status }) => status === 'running').map(({ id }) => id));
  assert.ok(started.every(({ processId }) => running.has(processId)));
  await Promise.all(started.map(({ processId }) => processes.killProcess(processId)));
});
