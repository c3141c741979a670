// Many clients at once, floods, and stalled clients.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { TIMEOUT_MS, eventually, numbers, printNumbers, withTimeout } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { Gate } from '../../_shared/gate.mjs';
import { checkInEmptyHome } from '../empty-home.mjs';
import { data, withTerminalNewlines } from '../support.mjs';

/**
 * Calls /v1/health 100 times from a worker thread, so that the load of this thread does not count. The latency is
 * printed but not asserted.
 */
async function askForHealth(t, when) {
  const worker = new Worker(`
    const { parentPort, workerData } = require('node:worker_threads');
    (async () => {
      const times = [];
      for (let n = 0; n < 100; n += 1) {
        const started = performance.now();
        const response = await fetch(workerData);
        await response.text();
        if (response.status !== 200) throw new Error('health: ' + response.status);
        times.push(performance.now() - started);
      }
      parentPort.postMessage(times);
    })();
  `, { eval: true, workerData: `${t.base}/v1/health` });
  t.cleanUpSteps.push(() => worker.terminate());
  const [times] = await once(worker, 'message');
  times.sort((a, b) => a - b);
  console.log(`# native health ${when}: p99 ${times[98].toFixed(1)} ms, worst ${times[99].toFixed(1)} ms, of 100`);
}

const LINE = 'the quick brown fox jumps\n';
/** Output without end until the gate opens, and then a last word. */
const floodUntil = ({ waitCommand }) => `yes "${LINE.trimEnd()}" & ${waitCommand}; kill $!; wait $! 2>/dev/null; printf end; exec cat`;

check('many_terminals_run_at_once', async (t) => {
  const expected = withTerminalNewlines(numbers(100_000).toString('latin1'));
  await Promise.all([...Array(32).keys()].map(async (n) => {
    const pty = await t.pty(`head -n 1 >/dev/null; ${printNumbers(100_000)}; printf 'end ${n}'`);
    const terminal = await (await t.connect(pty.id)).ready();
    terminal.send('\n');
    await terminal.waitForClose();
    assert.ok(terminal.text === `\r\n${expected}end ${n}`, `${n}: ${terminal.text.length}`);
  }));
});

checkInEmptyHome('many_sessions_run_at_once', async (t) => {
  await Promise.all([...Array(16).keys()].map(async (n) => {
    const { state } = await t.shell(`echo ${n}; exit ${n}`);
    assert.deepEqual([state.output, state.metadata.exit], [`${n}\n`, n]);
  }));
});

// In the original, health took 12 s, and 3 minutes with a stalled reader.
check('beyond_a_flood_and_a_stalled_client_do_not_delay_others', async (t) => {
  const gate = new Gate(t.cleanUpSteps);
  const pty = await t.pty(`head -n 1 >/dev/null; ${floodUntil(gate)}`);
  const stalled = await (await t.connect(pty.id)).ready();
  const keen = await (await t.connect(pty.id)).ready();
  stalled.socket.pause();
  keen.send('\n');
  await keen.waitFor(LINE.trimEnd());
  // All of these respond while the flood runs; it does not end before.
  for (let round = 0; round < 5; round += 1) {
    const list = await withTimeout(TIMEOUT_MS, 'the list', t.sdkV2.pty.list());
    assert.equal(data(list).some(({ id }) => id === pty.id), true);
  }
  await askForHealth(t, 'during a flood with a stalled client');
  // The program waits for the stalled client, but not for long.
  await keen.waitFor(({ text }) => text.length > 20_000_000, 60_000);
  gate.release();
  await keen.waitFor('end', 60_000);
  const units = keen.text.length - '\r\n'.length - 'end'.length;
  const printed = withTerminalNewlines(LINE).repeat(Math.ceil(units / withTerminalNewlines(LINE).length)).slice(0, units);
  assert.ok(keen.text === `\r\n${printed}end`, `${keen.text.length} units`);
  // The stalled client resumes reading.
  stalled.socket.resume();
  const outcome = await Promise.race([stalled.waitFor('end').then(() => 'all'), stalled.closed]);
  if (outcome !== 'all') {
    assert.equal(outcome.code, 1013, 'lost output closes the socket');
    assert.equal(stalled.text, keen.text.slice(0, stalled.text.length));
    const again = await (await t.connect(pty.id, { cursor: stalled.cursor })).ready();
    assert.ok(keen.text.endsWith(again.text) && again.text.endsWith('end'));
  } else {
    assert.ok(stalled.text === keen.text);
  }
}, { seconds: 120 });

// The original took 6.8 s.
check('beyond_a_flood_without_a_client_does_not_delay_others', async (t) => {
  const gate = new Gate(t.cleanUpSteps);
  const pty = await t.pty(`read x; ${floodUntil(gate)}`);
  const terminal = await (await t.connect(pty.id)).ready();
  terminal.send('\n');
  await terminal.disconnect();
  await eventually('a flood', async () => (await t.native('GET', `/v1/processes/${t.nativeId(pty)}`)).outputEnd > 20_000_000);
  // The flood does not end before these responses.
  await askForHealth(t, 'during a flood without a client');
  gate.release();
  await t.waitForOutput(pty, 'end$');
});

checkInEmptyHome('many_event_listeners_are_served_although_one_does_not_read', async (t) => {
  const abort = new AbortController();
  t.cleanUpSteps.push(() => abort.abort());
  // Its body is never read.
  assert.equal((await fetch(`${t.url}/global/event`, { signal: abort.signal })).headers.get('content-type'), 'text/event-stream');
  const all = await Promise.all([...Array(8)].map(() => t.events()));
  const session = await t.session();
  await t.shell(printNumbers(3_000_000), session);
  await Promise.all(all.map((events) => events.waitForType('session.idle', session.id)));
});

check('many_messages_stay_in_order', async (t) => {
  const session = await t.session();
  for (let n = 0; n < 12; n += 1) data(await t.sdkV2.session.command({ sessionID: session.id, command: 'echo', arguments: String(n) }));
  const outputs = data(await t.sdkV2.session.messages({ sessionID: session.id })).map(({ parts: [part] }) => part.state?.output).filter(Boolean);
  assert.deepEqual(outputs, [...Array(12).keys()].map((n) => `${n}\n`));
  await eventually('idle', async () => data(await t.sdkV2.session.status())[session.id] === undefined);
});
