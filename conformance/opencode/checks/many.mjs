// Many at once, floods, and one that does not read.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { PATIENCE_MS, eventually, numbers, printNumbers, within } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { Gate } from '../../_shared/pace.mjs';
import { checkInEmptyHome } from '../empty-home.mjs';
import { data, onTerminal } from '../support.mjs';

/** A hundred calls of outlive's own health, from a thread of its own: what this one has to do must not count. How long they take is said and not judged. */
async function askForHealth(t, when) {
  const worker = new Worker(`
    const { parentPort, workerData } = require('node:worker_threads');
    (async () => {
      const times = [];
      for (let n = 0; n < 100; n += 1) {
        const begun = performance.now();
        const response = await fetch(workerData);
        await response.text();
        if (response.status !== 200) throw new Error('health: ' + response.status);
        times.push(performance.now() - begun);
      }
      parentPort.postMessage(times);
    })();
  `, { eval: true, workerData: `${t.base}/v1/health` });
  t.atEnd.push(() => worker.terminate());
  const [times] = await once(worker, 'message');
  times.sort((a, b) => a - b);
  console.log(`# native health ${when}: p99 ${times[98].toFixed(1)} ms, worst ${times[99].toFixed(1)} ms, of 100`);
}

const LINE = 'the quick brown fox jumps\n';
/** A flood that ends with the gate, and a last word. */
const floodUntil = ({ wait }) => `yes "${LINE.trimEnd()}" & ${wait}; kill $!; wait $! 2>/dev/null; printf end; exec cat`;

check('many_32_terminals_at_once', async (t) => {
  const expected = onTerminal(numbers(100_000).toString('latin1'));
  await Promise.all([...Array(32).keys()].map(async (n) => {
    const pty = await t.pty(`head -n 1 >/dev/null; ${printNumbers(100_000)}; printf 'end ${n}'`);
    const terminal = await (await t.connect(pty.id)).ready();
    terminal.send('\n');
    await terminal.end();
    assert.ok(terminal.text === `\r\n${expected}end ${n}`, `${n}: ${terminal.text.length}`);
  }));
});

checkInEmptyHome('many_16_sessions_at_once', async (t) => {
  await Promise.all([...Array(16).keys()].map(async (n) => {
    const { state } = await t.shell(`echo ${n}; exit ${n}`);
    assert.deepEqual([state.output, state.metadata.exit], [`${n}\n`, n]);
  }));
});

// There health took 12 s, and 3 minutes with a reader that had stopped.
check('beyond_a_flood_and_a_stuck_client_delay_nobody', async (t) => {
  const gate = new Gate(t.atEnd);
  const pty = await t.pty(`head -n 1 >/dev/null; ${floodUntil(gate)}`);
  const stuck = await (await t.connect(pty.id)).ready();
  const keen = await (await t.connect(pty.id)).ready();
  stuck.socket.pause();
  keen.send('\n');
  await keen.until(LINE.trimEnd());
  // All of this is answered while the flood goes on, which does not end before.
  for (let round = 0; round < 5; round += 1) {
    const list = await within(PATIENCE_MS, 'the list', t.second.pty.list());
    assert.equal(data(list).some(({ id }) => id === pty.id), true);
  }
  await askForHealth(t, 'during a flood with a stuck client');
  // The program waits for the stuck one, but not for long.
  await keen.until(({ text }) => text.length > 20_000_000, 60_000);
  gate.letPass();
  await keen.until('end', 60_000);
  const units = keen.text.length - '\r\n'.length - 'end'.length;
  const printed = onTerminal(LINE).repeat(Math.ceil(units / onTerminal(LINE).length)).slice(0, units);
  assert.ok(keen.text === `\r\n${printed}end`, `${keen.text.length} units`);
  // The stuck one comes back with what it has, and goes on.
  stuck.socket.resume();
  const outcome = await Promise.race([stuck.until('end').then(() => 'all'), stuck.closed]);
  if (outcome !== 'all') {
    assert.equal(outcome.code, 1013, 'what it cannot get is never left out silently');
    assert.equal(stuck.text, keen.text.slice(0, stuck.text.length));
    const again = await (await t.connect(pty.id, { cursor: stuck.cursor })).ready();
    assert.ok(keen.text.endsWith(again.text) && again.text.endsWith('end'));
  } else {
    assert.ok(stuck.text === keen.text);
  }
}, { seconds: 120 });

// There: 6.8 s.
check('beyond_a_flood_that_nobody_watches_delays_nobody', async (t) => {
  const gate = new Gate(t.atEnd);
  const pty = await t.pty(`read x; ${floodUntil(gate)}`);
  const terminal = await (await t.connect(pty.id)).ready();
  terminal.send('\n');
  await terminal.hangUp();
  await eventually('a flood', async () => (await t.native('GET', `/v1/processes/${t.nativeId(pty)}`)).outputEnd > 20_000_000);
  // It does not end before these are answered.
  await askForHealth(t, 'during a flood that nobody watches');
  gate.letPass();
  await t.untilPrinted(pty, 'end$');
});

checkInEmptyHome('many_listeners_of_events_of_which_one_does_not_read', async (t) => {
  const abort = new AbortController();
  t.atEnd.push(() => abort.abort());
  // Its body is never read.
  assert.equal((await fetch(`${t.url}/global/event`, { signal: abort.signal })).headers.get('content-type'), 'text/event-stream');
  const all = await Promise.all([...Array(8)].map(() => t.events()));
  const session = await t.session();
  await t.shell(printNumbers(3_000_000), session);
  await Promise.all(all.map((events) => events.typed('session.idle', session.id)));
});

check('many_messages_stay_in_order', async (t) => {
  const session = await t.session();
  for (let n = 0; n < 12; n += 1) data(await t.second.session.command({ sessionID: session.id, command: 'echo', arguments: String(n) }));
  const outputs = data(await t.second.session.messages({ sessionID: session.id })).map(({ parts: [part] }) => part.state?.output).filter(Boolean);
  assert.deepEqual(outputs, [...Array(12).keys()].map((n) => `${n}\n`));
  await eventually('idle', async () => data(await t.second.session.status())[session.id] === undefined);
});
