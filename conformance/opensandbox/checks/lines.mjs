// How output is split into events.

import assert from 'node:assert/strict';
import { eventually, numbers, printNumbers } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { Gate } from '../../_shared/gate.mjs';

const lines = async (t, command) => (await t.commands.run(command)).logs.stdout.map(({ text }) => text);

check('lines_end_at_lf_cr_and_crlf', async (t) => {
  assert.deepEqual(await lines(t, String.raw`printf 'one\n\ntwo\r\n10%%\r20%%\rtail'`), ['one', '\n', 'two', '10%', '20%', 'tail']);
});

check('lines_with_invalid_utf8_are_replaced', async (t) => {
  assert.deepEqual(await lines(t, String.raw`printf 'a\377b\n\303'`), ['a\ufffdb', '\ufffd']);
});

check('lines_join_characters_split_over_writes', async (t) => {
  assert.deepEqual(await lines(t, String.raw`printf '\360\237'; sleep 0.2; printf '\230\200 \303'; sleep 0.2; printf '\251\n'`), ['😀 é']);
});

check('lines_are_sent_when_complete_unless_requested_otherwise', async (t) => {
  const gate = new Gate(t.cleanUpSteps);
  const command = `printf 'name: '; ${gate.waitCommand}; echo ann`;
  const whole = lines(t, command);
  await eventually('the beginning of the line', async () => (await t.findNative(gate.fifo))[0]?.outputEnd === 'name: '.length);
  gate.release();
  assert.deepEqual(await whole, ['name: ann']);
  const texts = [];
  for await (const { type, text } of (await t.stream('POST', '/command', { command, partial: true })).events) {
    if (type !== 'stdout') continue;
    texts.push(text);
    // The command continues only after this event.
    gate.release();
  }
  assert.deepEqual(texts, ['name: ', 'ann\n']);
});

check('lines_of_20_mb_in_total_are_exact', async (t) => {
  const length = 20_000_000;
  // Sixteen numbers per line: this check is about bytes, not about the client's speed with millions of events.
  const { logs, exitCode } = await t.commands.run(`${printNumbers(length)} | paste -sd '               \\n'`);
  assert.equal(exitCode, 0);
  const got = Buffer.from(logs.stdout.map(({ text }) => text).join(' '));
  const expected = Buffer.from(numbers(length).toString('latin1').trimEnd().replaceAll('\n', ' '));
  assert.ok(got.equals(expected), `${got.length} of ${expected.length} bytes`);
}, { seconds: 120 });

check('lines_of_5_mb_are_one_event', async (t) => {
  const long = "head -c 5000000 /dev/zero | tr '\\0' x";
  const all = await lines(t, `echo before; ${long}; echo; echo after; ${long}`);
  assert.deepEqual(all.map(({ length }) => length), [6, 5_000_000, 5, 5_000_000]);
  const text = 'x'.repeat(5_000_000);
  assert.ok(all.join('\n') === `before\n${text}\nafter\n${text}`);
});

check('lines_without_an_end_use_bounded_memory', async (t) => {
  const all = await t.collectStream('POST', '/command', { command: "head -c 40000000 /dev/zero | tr '\\0' x" });
  const texts = all.filter(({ type }) => type === 'stdout');
  assert.equal(texts.reduce((sum, { text }) => sum + text.length, 0), 40_000_000);
  const partials = texts.slice(0, -1);
  assert.ok(partials.length >= 2 && partials.every(({ partial, text }) => partial && text.length <= 16 << 20), `${texts.length}`);
  assert.ok(!texts.at(-1).partial);
});
