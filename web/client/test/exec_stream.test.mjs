// Streaming the output of session commands.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { serve } from './support/server.mjs';

const { client } = await serve('--no-token');
const text = (bytes) => new TextDecoder().decode(bytes);

test('stream delivers start, output and end of a command', async () => {
  const session = await client().createSession({ id: 'seen' });
  const items = [];
  for await (const item of session.stream('echo out; echo err >&2; (exit 4)')) items.push(item);
  assert.equal(items[0].type, 'start');
  const printed = (stream) =>
    items
      .filter(({ type }) => type === stream)
      .map(({ bytes }) => text(bytes))
      .join('');
  assert.equal(printed('stdout'), 'out\n');
  assert.equal(printed('stderr'), 'err\n');
  assert.equal(items.at(-1).exec.exitCode, 4);
  const { stdout, exitCode } = await session.result(items[0].execId, { wait: true });
  assert.deepEqual({ stdout, exitCode }, { stdout: 'out\n', exitCode: 4 });
});

test('stream delivers bytes that are not UTF-8', async () => {
  const session = await client().createSession({ id: 'bytes' });
  const pieces = [];
  for await (const item of session.stream("printf '\\377\\000a'"))
    if (item.type === 'stdout') pieces.push(...item.bytes);
  assert.deepEqual(pieces, [255, 0, 97]);
});

test('stream of an exited session rejects with session_exited', async () => {
  const session = await client().createSession({ id: 'gone' });
  await session.exec('exit 0');
  await assert.rejects(
    async () => {
      for await (const _ of session.stream('echo never'));
    },
    { code: 'session_exited', status: 410 },
  );
});
