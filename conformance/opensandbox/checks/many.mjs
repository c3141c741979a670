// Many clients at once, and stalled clients.

import assert from 'node:assert/strict';
import { TIMEOUT_MS, eventually, uniqueMarker, numbers, printNumbers, withTimeout } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { withoutHistory } from '../../_shared/server.mjs';
import { Context } from '../support.mjs';

check('many_commands_run_at_once', async (t) => {
  const expected = numbers(50_000).toString().trimEnd();
  const all = await Promise.all([...Array(32).keys()].map((n) => t.run(`echo ${n}; ${printNumbers(50_000)}; exit ${n}`)));
  all.forEach(({ out, exitCode }, n) => {
    assert.ok(out === `${n}\n${expected}`, `${n}`);
    assert.equal(exitCode, n);
  });
}, { seconds: 120 });

check('many_terminals_at_once_lose_nothing', async (t) => {
  const one = async (n) => {
    const socket = await t.connect(await t.pty({ command: `echo hello ${n}; exit ${n}` }));
    const { exit_code: code } = await socket.waitForFrame('exit');
    return [socket.printed(), code];
  };
  const all = await Promise.all([...Array(32).keys()].map(one));
  all.forEach(([text, code], n) => assert.deepEqual([text, code], [`hello ${n}\r\n`, n]));
});

check('many_sessions_run_at_once', async (t) => {
  const one = async (n) => {
    const id = await t.commands.createSession();
    t.cleanUpSteps.push(() => t.commands.deleteSession(id));
    await t.commands.runInSession(id, `export N=${n}`);
    return (await t.commands.runInSession(id, 'echo $N')).logs.stdout[0].text;
  };
  const all = await Promise.all([...Array(8).keys()].map(one));
  assert.deepEqual(all, [...Array(8).keys()].map(String));
});

check('stalled_clients_do_not_delay_others', async (t) => {
  const name = uniqueMarker();
  const stalled = await t.stream('POST', '/command', { command: `yes ${'x'.repeat(999)} | head -c 100000000; : ${name}` });
  stalled.response.pause();
  await eventually('more output than a connection buffers', async () => (await t.findNative(name))[0].outputEnd > 8_000_000);
  const { id, socket } = await t.shell();
  socket.type('yes 0123456789\n');
  await socket.waitFor('0123456789');
  socket.ws._socket.pause();
  const viewer = await t.connect(id, '?mode=viewer&since=99999999999');
  // The viewer only counts bytes, to keep its own cost low.
  let seen = 0;
  viewer.ws.removeAllListeners('message');
  viewer.ws.on('message', (data) => { seen += data.length; });
  // All of these respond while the clients are stalled. The latency is printed but not asserted.
  const times = [];
  for (let round = 0; round < 200; round += 1) {
    const before = performance.now();
    const { status } = await withTimeout(TIMEOUT_MS, 'health', t.native('GET', '/v1/health'));
    assert.equal(status, 'ok');
    times.push(performance.now() - before);
  }
  times.sort((a, b) => a - b);
  const p99 = times[Math.floor(times.length * 0.99)];
  console.log(`   native health beside stalled clients: p99 ${p99.toFixed(1)} ms of ${times.length}`);
  assert.equal((await withTimeout(TIMEOUT_MS, 'another command', t.run('echo on'))).out, 'on');
  // The viewer is served although the client that types does not read.
  await eventually('the output', () => seen > 0);
}, { seconds: 120 });

check('stalled_client_is_told_which_bytes_it_missed', async (shared) => {
  const t = await withoutHistory(shared, Context);
  const stalled = await t.stream('POST', '/command', { command: `yes ${'x'.repeat(999)} | head -c 100000000` });
  const { value } = await stalled.events.next();
  stalled.response.pause();
  const { outcome } = await t.native('POST', `/v1/processes/${await nativeIdOf(t, value.text)}/wait`, { timeoutMs: 100_000 });
  assert.equal(outcome, 'exited');
  stalled.response.resume();
  let end;
  for await (const event of stalled.events) end = event;
  assert.equal(end.type, 'error');
  assert.match(end.error.evalue, /bytes \d+ to \d+ are gone/);
}, { seconds: 120 });

async function nativeIdOf(t, dialectId) {
  const { compact } = await import('./native.mjs');
  const { processes } = await t.native('GET', '/v1/processes');
  return processes.find(({ id }) => compact(id) === dialectId).id;
}
