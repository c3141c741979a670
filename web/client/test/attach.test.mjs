// Attachments against a real server: every byte is delivered once, across lost connections.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WebSocket } from 'ws';
import { serve, until } from './support/server.mjs';

const TOKEN = 'the-token';
const server = await serve('--token', TOKEN);
const outlive = server.client({ token: TOKEN });
const text = (pieces) => Buffer.concat(pieces).toString();

/** Reads until `isDone` or the end. Returns output and other items separately. */
async function read(attachment, isDone = () => false) {
  const seen = { output: [], items: [] };
  for await (const item of attachment) {
    if (item.type === 'output') seen.output.push(item.bytes);
    else seen.items.push(item);
    if (isDone(seen)) break;
  }
  return seen;
}

test('an attachment carries output, input, size and exit', async () => {
  const shell = await outlive.start({
    command: 'stty -echo; echo ready; read line; echo "got $line"; stty size; exit 7',
    shell: true,
    tty: true,
  });
  const attachment = shell.attach({ from: 0, size: { cols: 91, rows: 31 } });
  const output = [];
  let exit;
  for await (const item of attachment) {
    if (item.type === 'output') {
      assert.equal(item.stream, 'terminal');
      output.push(item.bytes);
      if (text(output).endsWith('ready\r\n')) attachment.write('h\u{e9}llo\n');
    }
    if (item.type === 'exit') exit = item;
  }
  assert.equal(text(output), 'ready\r\ngot h\u{e9}llo\r\n31 91\r\n');
  assert.equal(exit.exitCode, 7);
});

test('stdout and stderr of a process on pipes are distinguished', async () => {
  const both = await outlive.start({ command: 'echo out; echo err >&2', shell: true });
  const streams = {};
  for await (const item of both.attach({ from: 0 })) {
    if (item.type === 'output') streams[item.stream] = (streams[item.stream] ?? '') + Buffer.from(item.bytes);
  }
  assert.deepEqual(streams, { stdout: 'out\n', stderr: 'err\n' });
});

test('every byte is delivered once although the server is killed repeatedly', async () => {
  const lines = 200_000;
  const counting = await outlive.start({ command: `seq ${lines}; sleep 1000`, shell: true, maxLogBytes: 4_000_000 });
  const attachment = counting.attach({ from: 0, flow: 'lossless' });
  let [received, kills, reconnects] = [0, 0, 0];
  const output = [];
  const whole = Array.from({ length: lines }, (_, at) => `${at + 1}\n`).join('');
  for await (const item of attachment) {
    if (item.type === 'reconnecting') reconnects += 1;
    assert.notEqual(item.type, 'gap');
    if (item.type !== 'output') continue;
    assert.equal(item.offset, received);
    received += item.bytes.length;
    output.push(item.bytes);
    if (received > (kills + 1) * 300_000 && kills < 3) {
      kills += 1;
      await server.killServer(TOKEN);
    }
    if (received >= whole.length) break;
  }
  assert.equal(text(output), whole);
  assert.ok(kills === 3 && reconnects >= 1, `${kills} kills, ${reconnects} reconnects`);
});

test('bytes that are gone are reported as a gap', async () => {
  const command = 'seq 200000; sleep 1000';
  const much = await outlive.start({ command, shell: true, maxLogBytes: 262_144, history: false });
  await much.wait({ for: 'output', pattern: '^200000$' });
  const { outputStart } = await much.info();
  assert.ok(outputStart > 0);
  const { items, output } = await read(much.attach({ from: 0 }), ({ output }) => text(output).endsWith('\n200000\n'));
  assert.deepEqual(
    items.find(({ type }) => type === 'gap'),
    { type: 'gap', from: 0, to: outputStart },
  );
  assert.equal(Buffer.concat(output).length + outputStart, (await much.info()).outputEnd);
});

test('at most one window of bytes is in flight', async () => {
  const window = 64 * 1024;
  let arrived = 0;
  class Counting extends WebSocket {
    constructor(url) {
      super(url);
      this.on('message', (data, isBinary) => (arrived += isBinary ? data.byteLength : 0));
    }
  }
  const flood = await outlive.start({ command: 'head -c 3000000 /dev/zero | tr "\\0" x', shell: true, tty: true });
  const attachment = server
    .client({ token: TOKEN, WebSocket: Counting })
    .process(flood.id)
    .attach({ from: 0, windowBytes: window });
  await flood.wait();
  await until('a full window has arrived', () => arrived >= window);
  for (let count = 0; count < 5; count += 1) await outlive.health();
  assert.equal(arrived, window, 'nothing is consumed yet');
  const { output } = await read(attachment);
  assert.equal(Buffer.concat(output).length, 3_000_000);
});

test('a viewer receives output and cannot send input', async () => {
  const cat = await outlive.start({ command: 'cat', tty: true });
  const viewer = cat.attach({ from: 0, role: 'viewer' });
  const writer = cat.attach();
  const seen = read(
    viewer,
    ({ output, items }) => text(output).includes('typed') && items.some(({ code }) => code === 'read_only'),
  );
  await until('both are attached', async () => (await cat.attachments()).length === 2);
  viewer.write('nothing\n');
  writer.write('typed\n');
  assert.ok(!text((await seen).output).includes('nothing'));
  writer.close();
});

test('a ticket lets a client without a token attach once', async () => {
  const cat = await outlive.start({ command: 'echo hello; exec cat', shell: true, tty: true });
  const { ticket } = await cat.ticket('viewer');
  const guest = server.client().process(cat.id);
  const { items } = await read(guest.attach({ from: 0, role: 'viewer', ticket }), ({ output }) =>
    text(output).includes('hello'),
  );
  assert.equal(items[0].role, 'viewer');
  await assert.rejects(read(guest.attach({ from: 0, role: 'viewer', ticket })));
});

test('deleting the process ends the attachment, and an unknown process is refused', async () => {
  const cat = await outlive.start({ command: 'cat' });
  const attachment = cat.attach();
  assert.equal((await attachment.next()).value.type, 'connected');
  await cat.delete({ force: true });
  // The process is killed before it is deleted; either may be seen first.
  const end = await read(attachment).then(
    ({ items }) => items.at(-1).type,
    ({ code }) => code,
  );
  assert.ok(['exit', 'deleted', 'not_found'].includes(end), end);
  await assert.rejects(read(outlive.process('proc_unknown').attach()), { code: 'not_found' });
});

test('input written before the connection arrives', async () => {
  const cat = await outlive.start({ command: 'cat' });
  const attachment = cat.attach({ from: 0 });
  attachment.write('typed before the connection\n');
  const { output } = await read(attachment, ({ output }) => text(output).includes('\n'));
  assert.equal(text(output), 'typed before the connection\n');
});
