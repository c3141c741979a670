// Resuming a broken stream after an event.

import assert from 'node:assert/strict';
import { eventually } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { Gate } from '../../_shared/gate.mjs';

const summary = (events) => events.filter(({ type }) => !['init', 'ping'].includes(type)).map(({ type, text, eid }) => [type, text, eid]);

check('resume_after_each_event_returns_the_rest', async (t) => {
  const gate = new Gate(t.cleanUpSteps);
  const command = `printf 'par'; ${gate.waitCommand}; echo err >&2; ${gate.waitCommand}; echo tial; printf 'o'; ${gate.waitCommand}; printf 'e' >&2; exit 4`;
  const whole = t.collectStream('POST', '/command', { command });
  // Two pipes have a defined order only if one is written after the content of the other was recorded.
  for (const length of ['par', 'parerr\n', 'parerr\ntial\no'].map((text) => text.length)) {
    await eventually(`${length} bytes`, async () => (await t.findNative(gate.fifo))[0]?.outputEnd === length);
    gate.release();
  }
  const all = await whole;
  const id = all[0].text;
  const events = summary(all);
  assert.deepEqual(events.map(([type, text]) => [type, text]), [['stderr', 'err'], ['stdout', 'partial'], ['stdout', 'o'], ['stderr', 'e'], ['error', undefined]]);
  assert.ok(events.every(([, , eid], at) => at === 0 || eid > events[at - 1][2]), 'event ids increase');
  for (let seen = 0; seen < events.length; seen += 1) {
    const after = seen === 0 ? 0 : events[seen - 1][2];
    const rest = await t.collectStream('GET', `/command/${id}/resume?after_eid=${after}`);
    assert.equal(rest[0].text, id);
    assert.deepEqual(summary(rest), events.slice(seen), `after ${seen}`);
  }
});

check('resume_of_a_running_command_replays_and_follows', async (t) => {
  const stream = await t.stream('POST', '/command', { command: 'i=0; while [ $i -lt 40 ]; do echo $i; i=$((i+1)); sleep 0.02; done' });
  const seen = [];
  let id;
  for await (const event of stream.events) {
    if (event.type === 'init') id = event.text;
    if (event.type === 'stdout') seen.push(event);
    if (seen.length === 5) break;
  }
  stream.abort();
  const rest = await t.collectStream('GET', `/command/${id}/resume?after_eid=${seen.at(-1).eid}`);
  const texts = [...seen, ...rest.filter(({ type }) => type === 'stdout')].map(({ text }) => text);
  assert.deepEqual(texts, [...Array(40).keys()].map(String));
  assert.equal(rest.at(-1).type, 'execution_complete');
});

check('resume_of_a_terminal_repeats_nothing', async (t) => {
  const command = 'for i in 1 2 3 4; do echo line $i; sleep 0.1; done';
  const stream = await t.stream('POST', '/command', { command, tty: true });
  let id;
  let first;
  for await (const event of stream.events) {
    if (event.type === 'init') id = event.text;
    if (event.type === 'stdout') {
      first = event;
      break;
    }
  }
  stream.abort();
  const rest = await t.collectStream('GET', `/command/${id}/resume?after_eid=${first.eid}`);
  const texts = [first, ...rest.filter(({ type }) => type === 'stdout')].map(({ text }) => text);
  assert.equal(texts.join(''), [1, 2, 3, 4].map((i) => `line ${i}\r\n`).join(''));
});

check('resume_of_an_unknown_command_is_404', async (t) => {
  const { status, json } = await t.http('GET', `/command/${'0'.repeat(32)}/resume`);
  assert.deepEqual([status, json.code], [404, 'INVALID_REQUEST_BODY']);
});
