// Resuming by cursor, which counts UTF-16 units since the terminal started.

import assert from 'node:assert/strict';
import { check } from '../../_shared/runner.mjs';
import { withoutHistory } from '../../_shared/server.mjs';
import { Context, nativeId } from '../support.mjs';

const MIXED = 'ABé€😀Z';

check('cursor_counts_utf16_units', async (t) => {
  const pty = await t.pty(`printf '${MIXED}'; exec cat`);
  await t.waitForOutput(pty, 'Z');
  const at = async (cursor) => {
    const terminal = await (await t.connect(pty.id, { cursor })).ready();
    await terminal.disconnect();
    return [terminal.text, terminal.controls[0].cursor];
  };
  assert.deepEqual(await at(undefined), [MIXED, 7]);
  for (const everything of ['0', '', 'x', '1.5', '-2', '-99']) assert.deepEqual(await at(everything), [MIXED, 7], everything);
  assert.deepEqual(await at(-1), ['', 7]);
  assert.deepEqual(await at(3), ['€😀Z', 7]);
  assert.deepEqual(await at(4), ['😀Z', 7]);
  assert.deepEqual(await at(6), ['Z', 7]);
  assert.deepEqual(await at(7), ['', 7]);
  assert.deepEqual(await at(99), ['', 7]);
});

check('cursor_inside_a_surrogate_pair_means_the_next_character', async (t) => {
  const pty = await t.pty(`printf '${MIXED}'; exec cat`);
  await t.waitForOutput(pty, 'Z');
  const terminal = await (await t.connect(pty.id, { cursor: 5 })).ready();
  assert.deepEqual([terminal.text, terminal.controls[0].cursor], ['Z', 7]);
});

check('cursor_reconnects_many_times_without_loss', async (t) => {
  // Prints one part for each line of input.
  const pty = await t.pty('stty -echo; printf ready; i=0; while [ $i -lt 1500 ]; do [ $((i%300)) = 0 ] && read x; printf "é€😀 %s\\n" $i; i=$((i+1)); done; printf end; exec cat');
  const expected = (count) => `ready${[...Array(count).keys()].map((n) => `é€😀 ${n}\r\n`).join('')}`;
  let terminal = await (await t.connect(pty.id)).waitFor('ready');
  let joined = '';
  for (let count = 300; count <= 1500; count += 300) {
    const before = terminal.text.length;
    terminal.send('\n');
    await terminal.waitFor(({ text }) => text.length > before);
    terminal.socket.terminate();
    await terminal.closed;
    joined += terminal.text;
    terminal = await (await t.connect(pty.id, { cursor: terminal.cursor })).ready();
    await terminal.waitFor(({ text }) => joined.length + text.length >= expected(count).length);
  }
  await terminal.waitFor(({ text }) => (joined + text).endsWith('end'));
  assert.equal(joined + terminal.text, `${expected(1500)}end`);
});

// Regression: the original returned 200,001 units of emoji with 6 broken characters.
check('beyond_surrogate_pairs_are_never_split', async (t) => {
  const pty = await t.pty(`printf x; i=0; while [ $i -lt 2000 ]; do printf '${'😀'.repeat(50)}'; i=$((i+1)); done; printf end; exec cat`);
  await t.waitForOutput(pty, 'end');
  const terminal = await (await t.connect(pty.id)).ready();
  assert.equal(terminal.controls[0].cursor, 200_004);
  assert.ok(terminal.text === `x${'😀'.repeat(100_000)}end`);
  assert.ok(terminal.frames.every((frame) => frame.isWellFormed?.() ?? !/[\ud800-\udbff]$|^[\udc00-\udfff]/.test(frame)));
});

/** 24 million units, most of which are no longer in the log. */
const lines = (from, to) => `awk 'BEGIN { for (i = ${from}; i < ${to}; i++) printf "%07d é€😀 line of text and more of it\\n", i }'`;
const FLOOD = `${lines(0, 600_000)}; printf 'the end'`;
const LINE_UNITS = '0000000 é€😀 line of text and more of it\r\n'.length;
const FLOOD_UNITS = 600_000 * LINE_UNITS + 'the end'.length;
const floodFrom = (units) => {
  const line = Math.floor(units / LINE_UNITS);
  const rest = [...Array(600_000 - line).keys()].map((n) => `${String(line + n).padStart(7, '0')} é€😀 line of text and more of it\r\n`);
  return `${rest.join('')}the end`.slice(units - line * LINE_UNITS);
};

check('cursor_is_exact_when_the_log_was_trimmed_without_a_client', async (shared) => {
  const t = await withoutHistory(shared, Context);
  const pty = await t.pty(`${FLOOD}; exec cat`);
  await t.waitForOutput(pty, 'the end');
  const all = await (await t.connect(pty.id)).ready();
  assert.equal(all.controls[0].cursor, FLOOD_UNITS);
  const oldest = FLOOD_UNITS - all.text.length;
  assert.ok(oldest > 1_000_000 && all.text.length > 2_097_152, `${all.text.length} units are kept`);
  assert.ok(all.text === floodFrom(oldest));
  for (const cursor of [FLOOD_UNITS - 3, FLOOD_UNITS - 777_777, oldest + 10 * LINE_UNITS]) {
    const some = await (await t.connect(pty.id, { cursor })).ready();
    assert.ok(some.text === floodFrom(cursor), `from ${cursor}: ${some.text.length}`);
    assert.equal(some.controls[0].cursor, FLOOD_UNITS);
  }
});

check('cursor_is_exact_after_a_trim_and_a_server_kill', async (t) => {
  // The last output comes after the server was killed.
  const [begin, end] = [lines(0, 400_000), lines(400_000, 600_000)];
  const pty = await t.pty(`stty -echo; printf ready; read x; ${begin}; read x; ${end}; printf 'the end'; exec cat`);
  const first = await (await t.connect(pty.id)).waitFor('ready');
  first.send('\n');
  await first.waitFor(({ text }) => text.length > 3_000_000);
  await t.killServer();
  await first.waitForClose();
  const next = await t.connect(pty.id, { cursor: first.cursor });
  next.send('\n');
  await next.waitFor('the end', 60_000);
  assert.ok(first.text + next.text === `ready${floodFrom(0)}`, 'it resumes at the cursor');
  const some = await (await t.connect(pty.id, { cursor: FLOOD_UNITS + 'ready'.length - 2_000_001 })).ready();
  assert.equal(some.controls[0].cursor, FLOOD_UNITS + 'ready'.length);
  assert.ok(some.text === floodFrom(FLOOD_UNITS - 2_000_001));
}, { seconds: 120 });

check('cursor_of_a_trimmed_native_terminal_stays_valid', async (t) => {
  const created = await t.native('POST', '/v1/processes', { command: `${FLOOD}; exec cat`, shell: true, tty: true });
  t.cleanUpSteps.push(() => t.native('DELETE', `/v1/processes/${created.id}?force=true`));
  await t.waitForOutput(created.id, 'the end');
  const pty = created.id.replace('proc_', 'pty_');
  const one = await (await t.connect(pty)).ready();
  const { cursor } = one.controls[0];
  assert.ok(one.text.endsWith('the end') && one.text === floodFrom(FLOOD_UNITS - one.text.length));
  one.send('more\n');
  await one.waitFor('more');
  await t.killServer();
  const two = await (await t.connect(pty, { cursor: cursor - 100 })).ready();
  assert.ok(two.text.startsWith(floodFrom(FLOOD_UNITS - 100)) && two.text.includes('more'));
  assert.equal(nativeId(pty), created.id);
});
