// The server dies in the middle, or is replaced.

import assert from 'node:assert/strict';
import { eventually, numbers, printNumbers } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { Gate } from '../../_shared/pace.mjs';
import { data } from '../support.mjs';

check('survival_kill_9_in_the_middle_loses_nothing', async (t) => {
  const obedient = 'n=0; while read count; do i=0; while [ $i -lt $count ]; do echo line $n; n=$((n+1)); i=$((i+1)); done; done';
  const lines = (count) => [...Array(count).keys()].map((n) => `line ${n}\n`).join('');
  const handle = await t.background(obedient, { stdin: true });
  const sandbox = await t.sandbox();
  let joined = '';
  let current = handle;
  for (let round = 1; round <= 3; round += 1) {
    await sandbox.commands.sendStdin(handle.pid, '50\n');
    await eventually('what was printed', () => joined + current.stdout === lines(round * 100 - 50));
    const broken = current.wait().then(() => assert.fail('it ended well'), (error) => error);
    await t.killServer();
    await broken;
    joined += current.stdout;
    await t.sandbox().then((fresh) => fresh.commands.sendStdin(handle.pid, '50\n'));
    current = await (await t.sandbox()).commands.connect(handle.pid, { timeoutMs: 0 });
    await eventually('what was missed', () => joined + current.stdout === lines(round * 100));
  }
  await current.closeStdin();
  const { stdout } = await current.wait();
  assert.equal(joined + stdout, lines(300));
});

// The SDK throws away what it has received and not looked at when a connection breaks. This reader does not.
check('survival_kill_9_of_a_busy_stream_loses_nothing', async (t) => {
  const count = 6_000;
  const gate = new Gate(t.atEnd);
  // A part of it each time it may go on, so that every server dies while there is more to come.
  const line = `i=0; while [ $i -lt ${count} ]; do [ $((i%2000)) = 0 ] && { ${gate.wait}; }; echo $i; i=$((i+1)); done; ${gate.wait}; echo end`;
  const stream = await t.stream('Start', t.start('/bin/sh', ['-c', line]));
  let received = reading(stream.response);
  const { pid } = (await eventually('the start', () => received.events()[0])).start;
  t.pids.add(pid);
  let joined = '';
  for (let round = 0; round < 3; round += 1) {
    gate.letPass();
    await eventually('some more', () => received.events().length > 1);
    await t.killServer();
    await received.over;
    joined += data(received.events());
    const again = await t.stream('Connect', { process: { pid } });
    received = reading(again.response);
  }
  gate.letPass();
  await eventually('the end', () => received.events().at(-1)?.end);
  joined += data(received.events());
  assert.equal(joined, `${[...Array(count).keys()].map((n) => `${n}\n`).join('')}end\n`);
});

/** Takes what arrives as it arrives; what is no whole envelope when it breaks off does not count. */
function reading(response) {
  let bytes = Buffer.alloc(0);
  response.on('data', (chunk) => { bytes = Buffer.concat([bytes, chunk]); });
  response.on('error', () => {});
  const over = new Promise((resolve) => response.once('close', resolve));
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
  return { events, over };
}

check('survival_the_next_server_knows_pid_tag_stdin_and_time_limit', async (t) => {
  const left = async (start, headers) => {
    const stream = await t.stream('Start', start, { headers });
    const { pid } = JSON.parse((await stream.envelopes.next()).value.payload).event.start;
    t.pids.add(pid);
    stream.abort();
    return pid;
  };
  const pid = await left(t.start('/bin/sh', ['-c', 'read x; echo got $x; exec sleep 300'], { tag: 'lives-on' }), {});
  // Another one: nobody knows whether the rest is done before its time is over.
  const limited = await left(t.start('/bin/sleep', ['300']), { 'connect-timeout-ms': '8000' });
  await t.killServer();
  const input = { process: { tag: 'lives-on' }, input: { stdin: Buffer.from('it\n').toString('base64') } };
  assert.equal((await t.call('SendInput', input)).status, 200);
  await t.untilPrinted(pid, 'got it');
  const listed = (await t.call('List', {})).json.processes.find((process) => process.pid === pid);
  assert.equal(listed.tag, 'lives-on');
  await t.untilExited(limited);
  assert.equal((await t.info(limited)).exitReason, 'timedOut');
});

check('survival_init_is_known_to_the_next_server', async (t) => {
  const init = (envVars) => fetch(`${t.url}/init`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ envVars }),
  });
  t.atEnd.push(() => init({}));
  assert.equal((await init({ KEPT: 'yes' })).status, 204);
  await t.killServer();
  assert.equal((await t.run('echo $KEPT')).stdout, 'yes\n');
});

// e2b-dev/E2B#921
check('survival_an_upgrade_ends_streams_with_a_word', async (t) => {
  const stream = await t.stream('Start', t.start('/bin/sh', ['-c', 'echo up; exec sleep 300']));
  const { pid } = JSON.parse((await stream.envelopes.next()).value.payload).event.start;
  t.pids.add(pid);
  const rest = (async () => {
    for await (const { flags, payload } of stream.envelopes) if (flags === 2) return JSON.parse(payload);
    throw new Error('cut off');
  })();
  await t.untilPrinted(pid, 'up');
  await t.native('POST', '/v1/upgrade', {});
  assert.equal((await rest).error.code, 'unavailable');
  assert.equal((await t.info(pid)).status, 'running');
});

check('survival_a_flood_is_exact_for_who_reads_to_the_end', async (t) => {
  // The server dies while nobody is connected: the holder has recorded all of it.
  const handle = await t.background(`head -n 1; ${printNumbers(5_000_000)}`, { stdin: true });
  await handle.disconnect();
  const sandbox = await t.sandbox();
  await sandbox.commands.sendStdin(handle.pid, 'go\n');
  await t.killServer();
  const again = await sandbox.commands.connect(handle.pid, { timeoutMs: 0 });
  assert.ok((await again.wait()).stdout === `go\n${numbers(5_000_000)}`);
});
