// Clients that do not read, and those who are not to notice.

import assert from 'node:assert/strict';
import { PATIENCE_MS, eventually, within } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { alone } from '../early.mjs';
import { STATELESS, open } from '../support.mjs';

/** Two hundred calls of outlive's own health. How long they take is said and not judged: that they are answered is what counts. */
async function askForHealth(t) {
  const times = [];
  for (let n = 0; n < 200; n += 1) {
    const begun = performance.now();
    await within(PATIENCE_MS, 'health', t.native('GET', '/v1/health'));
    times.push(performance.now() - begun);
  }
  console.log(`# native health p99 beside stuck readers: ${times.sort((a, b) => a - b)[197].toFixed(1)} ms`);
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
  await eventually('more than connections hold', async () => (await t.info(processId)).outputEnd > 8_000_000);
  // All of this is answered before any of them has read on.
  await askForHealth(t);
  assert.equal((await within(PATIENCE_MS, 'a command', t.run('echo on'))).stdout, 'on\n');
  await within(PATIENCE_MS, 'the list', t.client().processes.listProcesses());
  await within(PATIENCE_MS, 'the kill', t.client().processes.killProcess(processId));
  for (const { request } of stuck) request.destroy();
  const { processes } = await t.native('GET', '/v1/processes?all=true&status=running');
  const left = processes.filter(({ args }) => args?.[1] === flood);
  // Some of them end with their reader.
  await Promise.all(left.map(({ id }) => t.native('POST', `/v1/processes/${id}/kill`).catch(() => {})));
}, { seconds: 120 });

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
