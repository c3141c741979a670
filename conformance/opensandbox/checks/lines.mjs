// How output becomes events.

import assert from 'node:assert/strict';
import { eventually, numbers, printNumbers } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { Gate } from '../../_shared/pace.mjs';

const lines = async (t, command) => (await t.commands.run(command)).logs.stdout.map(({ text }) => text);

check('lines_end_by_lf_cr_and_crlf', async (t) => {
  assert.deepEqual(await lines(t, String.raw`printf 'one\n\ntwo\r\n10%%\r20%%\rtail'`), ['one', '\n', 'two', '10%', '20%', 'tail']);
});

check('lines_that_are_no_utf8', async (t) => {
  assert.deepEqual(await lines(t, String.raw`printf 'a\377b\n\303'`), ['a\ufffdb', '\ufffd']);
});

check('lines_keep_characters_that_come_in_parts', async (t) => {
  assert.deepEqual(await lines(t, String.raw`printf '\360\237'; sleep 0.2; printf '\230\200 \303'; sleep 0.2; printf '\251\n'`), ['😀 é']);
});

check('lines_that_are_not_finished_wait_unless_asked_otherwise', async (t) => {
  const gate = new Gate(t.atEnd);
  const command = `printf 'name: '; ${gate.wait}; echo ann`;
  const whole = lines(t, command);
  await eventually('the beginning of the line', async () => (await t.listed(gate.fifo))[0]?.outputEnd === 'name: '.length);
  gate.letPass();
  assert.deepEqual(await whole, ['name: ann']);
  const texts = [];
  for await (const { type, text } of (await t.stream('POST', '/command', { command, partial: true })).events) {
    if (type !== 'stdout') continue;
    texts.push(text);
    // It goes on only when this was told.
    gate.letPass();
  }
  assert.deepEqual(texts, ['name: ', 'ann\n']);
});

check('lines_20_mb_are_exact', async (t) => {
  const length = 20_000_000;
  // Sixteen numbers a line: what is checked is bytes, not how fast this client takes millions of events.
  const { logs, exitCode } = await t.commands.run(`${printNumbers(length)} | paste -sd '               \\n'`);
  assert.equal(exitCode, 0);
  const got = Buffer.from(logs.stdout.map(({ text }) => text).join(' '));
  const expected = Buffer.from(numbers(length).toString('latin1').trimEnd().replaceAll('\n', ' '));
  assert.ok(got.equals(expected), `${got.length} of ${expected.length} bytes`);
}, { seconds: 120 });

check('lines_of_1_mb_are_one_event', async (t) => {
  const [line, ...more] = await lines(t, "head -c 1000000 /dev/zero | tr '\\0' x; echo");
  assert.equal(more.length, 0);
  assert.ok(line === 'x'.repeat(1_000_000), `${line.length}`);
});

check('lines_without_end_do_not_fill_the_memory', async (t) => {
  const all = await t.whole('POST', '/command', { command: "head -c 17000000 /dev/zero | tr '\\0' x" });
  const texts = all.filter(({ type }) => type === 'stdout');
  assert.equal(texts.reduce((sum, { text }) => sum + text.length, 0), 17_000_000);
  assert.ok(texts.length >= 16 && texts.slice(0, -1).every(({ partial, text }) => partial && text.length <= 1_100_000), `${texts.length}`);
});
