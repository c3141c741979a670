// Valid and invalid UTF-8.

import assert from 'node:assert/strict';
import { eventually } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { nativeId } from '../support.mjs';

/** Octal escapes of printf. */
const escaped = (bytes) => [...bytes].map((byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('');

const INVALID = [
  [[0xe2, 0x82, 0x41], '\ufffdA'],
  [[0xf0, 0x9f, 0x98, 0x42], '\ufffdB'],
  [[0xed, 0xa0, 0x80], '\ufffd\ufffd\ufffd'],
  [[0xc0, 0x80], '\ufffd\ufffd'],
  [[0xf4, 0x90, 0x80, 0x80], '\ufffd\ufffd\ufffd\ufffd'],
  [[0xff], '\ufffd'],
];

check('text_with_invalid_utf8_is_replaced_as_in_browsers', async (t) => {
  const bytes = INVALID.flatMap(([bytes]) => [...bytes, 0x2c]);
  const expected = INVALID.map(([, text]) => `${text},`).join('');
  const pty = await t.pty(`printf '${escaped(bytes)}'; exec cat`);
  await t.waitForOutput(pty, ',$');
  const terminal = await (await t.connect(pty.id)).ready();
  assert.equal(terminal.text, expected);
  assert.equal(terminal.controls[0].cursor, expected.length);
  // A connection at every cursor receives the same rest.
  for (let cursor = 1; cursor < expected.length; cursor += 1) {
    const part = await (await t.connect(pty.id, { cursor })).ready();
    assert.equal(part.text, expected.slice(cursor), `from ${cursor}`);
    await part.disconnect();
  }
});

check('text_split_over_writes_arrives_whole', async (t) => {
  const text = 'é€😀';
  const bytes = [...Buffer.from(text)];
  const pty = await t.pty(`stty -echo; printf ready; for b in ${bytes.map((byte) => `'${escaped([byte])}'`).join(' ')}; do read x; printf "$b"; done; printf end; exec cat`);
  let terminal = await (await t.connect(pty.id)).waitFor('ready');
  let joined = '';
  const printed = async () => (await t.native('GET', `/v1/processes/${nativeId(pty.id)}`)).outputEnd;
  for (let n = 1; n < bytes.length; n += 1) {
    terminal.send('\n');
    await eventually('one more byte', async () => (await printed()) === 'ready'.length + n);
    // Also over a new connection inside a character.
    await terminal.disconnect();
    joined += terminal.text;
    terminal = await (await t.connect(pty.id, { cursor: terminal.cursor })).ready();
  }
  terminal.send('\n');
  await terminal.waitFor('end');
  assert.equal(joined + terminal.text, `ready${text}end`);
});

check('text_that_ends_inside_a_character_is_sent_at_the_exit', async (t) => {
  const pty = await t.pty(`printf 'a\\360\\237'`);
  const terminal = await t.connect(pty.id);
  await terminal.waitForClose();
  assert.equal(terminal.text, 'a\ufffd');
  const again = await t.connect(pty.id, { cursor: 2 });
  await again.waitForClose();
  assert.deepEqual([again.text, again.controls[0].cursor], ['', 2]);
});
