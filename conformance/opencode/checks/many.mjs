// Many at once, floods, and one that does not read.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { eventually, numbers, printNumbers } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { checkInEmptyHome } from '../empty-home.mjs';
import { data, onTerminal } from '../support.mjs';

/** Asks outlive's health until told to stop, from a thread of its own: what this one has to do must not count. */
async function watchHealth(t) {
  const worker = new Worker(`
    const { parentPort, workerData } = require('node:worker_threads');
    const times = [];
    let on = true;
    parentPort.once('message', () => { on = false; });
    (async () => {
      while (on) {
        const begun = performance.now();
        const response = await fetch(workerData);
        await response.text();
        if (response.status !== 200) throw new Error('health: ' + response.status);
        times.push(performance.now() - begun);
        if (times.length === 1) parentPort.postMessage('on');
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      parentPort.postMessage(times);
    })();
  `, { eval: true, workerData: `${t.base}/v1/health` });
  t.atEnd.push(() => worker.terminate());
  await once(worker, 'message');
  return async () => {
    worker.postMessage('stop');
    const [times] = await once(worker, 'message');
    times.sort((a, b) => a - b);
    return { count: times.length, p99: times[Math.floor(times.length * 0.99)], worst: times.at(-1) };
  };
}

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
  const pty = await t.pty('head -n 1 >/dev/null; yes "the quick brown fox jumps" | head -c 20000000; printf end; exec cat');
  const stuck = await (await t.connect(pty.id)).ready();
  const keen = await (await t.connect(pty.id)).ready();
  stuck.socket.pause();
  const health = await watchHealth(t);
  keen.send('\n');
  for (let round = 0; round < 5; round += 1) {
    assert.equal((data(await t.second.pty.list())).some(({ id }) => id === pty.id), true);
  }
  // The program waits for the stuck one, but not for long.
  await keen.until('end', 60_000);
  const { count, p99, worst } = await health();
  console.log(`# native health during a flood with a stuck client: p99 ${p99.toFixed(1)} ms, worst ${worst.toFixed(1)} ms, of ${count}`);
  assert.ok(p99 < 250, `p99 ${p99} ms`);
  const line = 'the quick brown fox jumps\n';
  const printed = line.repeat(Math.ceil(20_000_000 / line.length)).slice(0, 20_000_000);
  assert.ok(keen.text === onTerminal(`\n${printed}end`), `${keen.text.length} units`);
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
}, { seconds: 90 });

// There: 6.8 s.
check('beyond_a_flood_that_nobody_watches_delays_nobody', async (t) => {
  const pty = await t.pty('read x; yes "the quick brown fox jumps" | head -c 100000000; printf end; exec cat');
  const health = await watchHealth(t);
  const terminal = await (await t.connect(pty.id)).ready();
  terminal.send('\n');
  await terminal.hangUp();
  await t.untilPrinted(pty, 'end$');
  const { count, p99, worst } = await health();
  console.log(`# native health during 100 MB: p99 ${p99.toFixed(1)} ms, worst ${worst.toFixed(1)} ms, of ${count}`);
  assert.ok(p99 < 250, `p99 ${p99} ms`);
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
