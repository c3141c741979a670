// Output is acknowledged when the emulator has parsed it.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { scripted } from '../../client/test/support/scripted.mjs';
import { until } from '../../client/test/support/server.mjs';
import { OutliveAddon } from '../dist/index.js';

/** An emulator that parses when the test calls the callbacks in `unparsed`. */
class ManualEmulator {
  cols = 80;
  rows = 24;
  options = {};
  unparsed = [];
  written = [];
  onResize = () => ({ dispose() {} });
  onData = (listener) => {
    this.type = listener;
    return { dispose() {} };
  };

  resize(cols, rows) {
    [this.cols, this.rows] = [cols, rows];
  }

  write(data, parsed) {
    this.written.push(Buffer.from(data).toString());
    this.unparsed.push(parsed);
  }
}

async function connect(emulator) {
  const server = await scripted();
  const addon = new OutliveAddon({ begin: 'now' });
  after(() => addon.dispose());
  addon.activate(emulator);
  addon.connect(server.process);
  return server.next();
}
const acknowledged = ({ received }) => received.filter(({ type }) => type === 'ack').map(({ offset }) => offset);

test('output is acknowledged only after it is parsed', async () => {
  const emulator = new ManualEmulator();
  const connection = await connect(emulator);
  connection.ready(0).bytes('abc', 'def', 'ghi');
  await until('everything is written to the emulator', () => emulator.written.length === 3);
  emulator.unparsed[0]();
  emulator.unparsed[1]();
  await until('two chunks are acknowledged', () => acknowledged(connection).at(-1) === 6);
  emulator.unparsed[2]();
  await until('the rest is acknowledged', () => acknowledged(connection).at(-1) === 9);
});

test('an emulator that parses synchronously is acknowledged without being drawn', async () => {
  const emulator = Object.assign(new ManualEmulator(), { wasmTerm: {} });
  const write = emulator.write.bind(emulator);
  emulator.write = (data) => {
    write(data);
    if (Buffer.from(data).includes('?')) emulator.type('!');
  };
  const connection = await connect(emulator);
  connection.ready(0, { head: 4 }).bytes('old?', 'new?');
  await until('all output is acknowledged', () => acknowledged(connection).at(-1) === 8);
  assert.ok(emulator.unparsed.every((parsed) => parsed === undefined));
  await until('the new query is answered', () => connection.received.includes('!'));
  assert.equal(connection.received.filter((frame) => frame === '!').length, 1);
});

test('waiting output is discarded when a repaint replaces it', async () => {
  const emulator = new ManualEmulator();
  const connection = await connect(emulator);
  const flood = 'y'.repeat(60_000);
  connection
    .ready(0)
    .bytes(flood, flood, flood, flood)
    .send({ type: 'gap', from: 240_000, to: 9_000_000 })
    .repaint(9_000_000, ['\x1bcthe present']);
  await until('some output is written to the emulator', () => emulator.written.length > 0);
  const parse = () => emulator.unparsed.splice(0).forEach((parsed) => parsed());
  await until('all output is acknowledged', () => (parse(), acknowledged(connection).at(-1) === 9_000_000));
  await until('the repaint is written', () => emulator.written.includes('\x1bcthe present'));
  assert.ok(emulator.written.filter((text) => text === flood).length < 4, 'not all of the flood was parsed');
  parse();
  connection.bytes(' and more');
  await until('later output is written', () => emulator.written.at(-1) === ' and more');
});
