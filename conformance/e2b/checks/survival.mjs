// The server is killed or replaced.

import assert from 'node:assert/strict';
import { eventually, numbers, printNumbers } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { Gate } from '../../_shared/gate.mjs';
import { data } from '../support.mjs';

check('survival_kill_9_loses_no_output', async (t) => {
  const printOnInput = 'n=0; while read count; do i=0; while [ $i -lt $count ]; do echo line $n; n=$((n+1)); i=$((i+1)); done; done';
  const lines = (count) => [...Array(count).keys()].map((n) => `line ${n}\n`).join('');
  const handle = await t.background(printOnInput, { stdin: true });
  const sandbox = await t.sandbox();
  let joined = '';
  let current = handle;
  for (let round = 1; round <= 3; round += 1) {
    await sandbox.commands.sendStdin(handle.pid, '50\n');
    await eventually('the printed output', () => joined + current.stdout === lines(round * 100 - 50));
    const broken = current.wait().then(() => assert.fail('it must not succeed'), (error) => error);
    await t.killServer();
    await broken;
    joined += current.stdout;
    await t.sandbox().then((fresh) => fresh.commands.sendStdin(handle.pid, '50\n'));
    current = await (await t.sandbox()).commands.connect(handle.pid, { timeoutMs: 0 });
    await eventually('the missed output', () => joined + current.stdout === lines(round * 100));
  }
  await current.closeStdin();
  const { stdout } = await current.wait();
  assert.equal(joined + stdout, lines(300));
});

// When a connection breaks, the SDK discards received bytes that it has not parsed. This reader does not.
check('survival_kill_9_during_a_busy_stream_loses_no_output', async (t) => {
  const count = 6_000;
  const gate = new Gate(t.cleanUpSteps);
  // Prints one part per release, so that every server is killed before the output is complete.
  const line = `i=0; while [ $i -lt ${count} ]; do [ $((i%2000)) = 0 ] && { ${gate.waitCommand}; }; echo $i; i=$((i+1)); done; ${gate.waitCommand}; echo end`;
  const stream = await t.stream('Start', t.start('/bin/sh', ['-c', line]));
  let received = collectEvents(stream.response);
  const { pid } = (await eventually('the start', () => received.events()[0])).start;
  t.pids.add(pid);
  let joined = '';
  for (let round = 0; round < 3; round += 1) {
    gate.release();
    await eventually('more output', () => received.events().length > 1);
    await t.killServer();
    await received.closed;
    joined += data(received.events());
    const again = await t.stream('Connect', { process: { pid } });
    received = collectEvents(again.response);
  }
  gate.release();
  await eventually('the end', () => received.events().at(-1)?.end);
  joined += data(received.events());
  assert.equal(joined, `${[...Array(count).keys()].map((n) => `${n}\n`).join('')}end\n`);
});

/** Collects bytes as they arrive. An incomplete last envelope is ignored. */
function collectEvents(response) {
  let bytes = Buffer.alloc(0);
  response.on('data', (chunk) => { bytes = Buffer.concat([bytes, chunk]); });
  response.on('error', () => {});
  const closed = new Promise((resolve) => response.once('close', resolve));
  const events = () => {
    const all = [];
    for (let at = 0; at + 5 <= bytes.length; ) {
      const length = bytes.readUInt32BE(at + 1);
      if (at + 5 + length > bytes.length) break;
      if (bytes[at] === 0) all.push(JSON.parse(bytes.subarray(at + 5, at + 5 + length)).event);
      at += 5 + length;
    }
    return all;
  };
  return { events, closed };
}

check('survival_the_next_server_knows_pid_tag_stdin_and_time_limit', async (t) => {
  const startAndDisconnect = async (start, headers) => {
    const stream = await t.stream('Start', start, { headers });
    const { pid } = JSON.parse((await stream.envelopes.next()).value.payload).event.start;
    t.pids.add(pid);
    stream.abort();
    return pid;
  };
  const pid = await startAndDisconnect(t.start('/bin/sh', ['-c', 'read x; echo got $x; exec sleep 300'], { tag: 'lives-on' }), {});
  // A separate process, because the other steps may take longer than its time limit.
  const limited = await startAndDisconnect(t.start('/bin/sleep', ['300']), { 'connect-timeout-ms': '8000' });
  await t.killServer();
  const input = { process: { tag: 'lives-on' }, input: { stdin: Buffer.from('it\n').toString('base64') } };
  assert.equal((await t.call('SendInput', input)).status, 200);
  await t.waitForOutput(pid, 'got it');
  const listed = (await t.call('List', {})).json.processes.find((process) => process.pid === pid);
  assert.equal(listed.tag, 'lives-on');
  await t.waitForExit(limited);
  assert.equal((await t.info(limited)).exitReason, 'timedOut');
});

check('survival_the_next_server_keeps_init', async (t) => {
  const init = (envVars) => fetch(`${t.url}/init`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ envVars }),
  });
  t.cleanUpSteps.push(() => init({}));
  assert.equal((await init({ KEPT: 'yes' })).status, 204);
  await t.killServer();
  assert.equal((await t.run('echo $KEPT')).stdout, 'yes\n');
});

// Regression (e2b-dev/E2B#921).
check('survival_upgrade_ends_streams_with_unavailable', async (t) => {
  const stream = await t.stream('Start', t.start('/bin/sh', ['-c', 'echo up; exec sleep 300']));
  const { pid } = JSON.parse((await stream.envelopes.next()).value.payload).event.start;
  t.pids.add(pid);
  const rest = (async () => {
    for await (const { flags, payload } of stream.envelopes) if (flags === 2) return JSON.parse(payload);
    throw new Error('cut off');
  })();
  await t.waitForOutput(pid, 'up');
  await t.upgradeServer();
  assert.equal((await rest).error.code, 'unavailable');
  assert.equal((await t.info(pid)).status, 'running');
});

check('survival_flood_is_exact_for_a_client_that_reads_to_the_end', async (t) => {
  // The server dies while no client is connected; the holder records all output.
  const handle = await t.background(`head -n 1; ${printNumbers(5_000_000)}`, { stdin: true });
  await handle.disconnect();
  const sandbox = await t.sandbox();
  await sandbox.commands.sendStdin(handle.pid, 'go\n');
  await t.killServer();
  const again = await sandbox.commands.connect(handle.pid, { timeoutMs: 0 });
  assert.ok((await again.wait()).stdout === `go\n${numbers(5_000_000)}`);
});
