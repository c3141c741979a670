// Many at once, and one that does not read.

import assert from 'node:assert/strict';
import { PATIENCE_MS, eventually, mark, numbers, printNumbers, within } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';

check('many_32_commands_at_once', async (t) => {
  const expected = numbers(50_000).toString().trimEnd();
  const all = await Promise.all([...Array(32).keys()].map((n) => t.run(`echo ${n}; ${printNumbers(50_000)}; exit ${n}`)));
  all.forEach(({ out, exitCode }, n) => {
    assert.ok(out === `${n}\n${expected}`, `${n}`);
    assert.equal(exitCode, n);
  });
}, { seconds: 120 });

check('many_32_terminals_at_once_lose_nothing', async (t) => {
  const one = async (n) => {
    const socket = await t.connect(await t.pty({ command: `echo hello ${n}; exit ${n}` }));
    const { exit_code: code } = await socket.text('exit');
    return [socket.printed(), code];
  };
  const all = await Promise.all([...Array(32).keys()].map(one));
  all.forEach(([text, code], n) => assert.deepEqual([text, code], [`hello ${n}\r\n`, n]));
});

check('many_sessions_at_once', async (t) => {
  const one = async (n) => {
    const id = await t.commands.createSession();
    t.atEnd.push(() => t.commands.deleteSession(id));
    await t.commands.runInSession(id, `export N=${n}`);
    return (await t.commands.runInSession(id, 'echo $N')).logs.stdout[0].text;
  };
  const all = await Promise.all([...Array(8).keys()].map(one));
  assert.deepEqual(all, [...Array(8).keys()].map(String));
});

check('stuck_clients_delay_nobody', async (t) => {
  const name = mark();
  const stalled = await t.stream('POST', '/command', { command: `yes ${'x'.repeat(999)} | head -c 100000000; : ${name}` });
  stalled.response.pause();
  await eventually('more than a connection holds', async () => (await t.listed(name))[0].outputEnd > 8_000_000);
  const { id, socket } = await t.shell();
  socket.type('yes 0123456789\n');
  await socket.until('0123456789');
  socket.ws._socket.pause();
  const viewer = await t.connect(id, '?mode=viewer&since=99999999999');
  // Only counted: what is measured is the server.
  let seen = 0;
  viewer.ws.removeAllListeners('message');
  viewer.ws.on('message', (data) => { seen += data.length; });
  // All of this is answered before the stuck ones have read on. How long it takes is said and not judged.
  const times = [];
  for (let round = 0; round < 200; round += 1) {
    const before = performance.now();
    const { status } = await within(PATIENCE_MS, 'health', t.native('GET', '/v1/health'));
    assert.equal(status, 'ok');
    times.push(performance.now() - before);
  }
  times.sort((a, b) => a - b);
  const p99 = times[Math.floor(times.length * 0.99)];
  console.log(`   native health beside stuck clients: p99 ${p99.toFixed(1)} ms of ${times.length}`);
  assert.equal((await within(PATIENCE_MS, 'another command', t.run('echo on'))).out, 'on');
  // Who looks on is served although the one who types does not read.
  await eventually('what is printed', () => seen > 0);
}, { seconds: 120 });

check('stuck_client_is_told_what_it_missed', async (t) => {
  const stalled = await t.stream('POST', '/command', { command: `yes ${'x'.repeat(999)} | head -c 100000000` });
  const { value } = await stalled.events.next();
  stalled.response.pause();
  const { outcome } = await t.native('POST', `/v1/processes/${await ownId(t, value.text)}/wait`, { timeoutMs: 100_000 });
  assert.equal(outcome, 'exited');
  stalled.response.resume();
  let end;
  for await (const event of stalled.events) end = event;
  assert.equal(end.type, 'error');
  assert.match(end.error.evalue, /bytes \d+ to \d+ are gone/);
}, { seconds: 120 });

async function ownId(t, theirs) {
  const { compact } = await import('./native.mjs');
  const { processes } = await t.native('GET', '/v1/processes');
  return processes.find(({ id }) => compact(id) === theirs).id;
}
