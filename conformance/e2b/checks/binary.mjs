// Binary protobuf messages, which third-party clients use. Encoded by the official protobuf library.

import assert from 'node:assert/strict';
import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { check } from '../../_shared/runner.mjs';

const message = (fill) => {
  const writer = new BinaryWriter();
  fill(writer);
  return Buffer.from(writer.finish());
};
const inside = (number, bytes) => (writer) => writer.tag(number, WireType.LengthDelimited).bytes(bytes);
const text = (number, value) => (writer) => writer.tag(number, WireType.LengthDelimited).string(value);
const all = (...parts) => message((writer) => parts.forEach((part) => part(writer)));

/** Parses a message into fields by number. Length-delimited fields stay bytes. */
function read(bytes) {
  const reader = new BinaryReader(bytes);
  const fields = {};
  while (reader.pos < reader.len) {
    const [number, kind] = reader.tag();
    const value = kind === WireType.LengthDelimited ? Buffer.from(reader.bytes()) : reader.int32();
    (fields[number] ??= []).push(value);
  }
  return fields;
}

const selector = (pid) => all((writer) => writer.tag(1, WireType.Varint).uint32(pid));

async function start(t, cmd, args, more = []) {
  const env = all(text(1, 'A'), text(2, 'bin'));
  const config = all(text(1, cmd), ...args.map((arg) => text(2, arg)), inside(3, env), text(4, '/usr'));
  const stream = await t.stream('Start', all(inside(1, config), ...more), { codec: 'proto' });
  assert.equal(stream.headers['content-type'], 'application/connect+proto');
  const events = (async function* () {
    for await (const { flags, payload } of stream.envelopes) {
      if (flags === 2) {
        assert.equal(payload.toString(), '{}');
        return;
      }
      const [event] = read(payload)[1];
      yield read(event);
    }
  })();
  const first = (await events.next()).value;
  const pid = read(first[1][0])[1][0];
  t.pids.add(pid);
  return { pid, events };
}

check('binary_start_accepts_input_and_reports_the_end', async (t) => {
  const { pid, events } = await start(t, '/bin/sh', ['-c', 'pwd; echo $A; cat; exit 9']);
  const input = all(inside(1, Buffer.from([0, 0xff])));
  const sent = await t.call('SendInput', all(inside(1, selector(pid)), inside(2, input)), { codec: 'proto' });
  assert.deepEqual([sent.status, sent.type, sent.bytes.length], [200, 'application/proto', 0]);
  assert.equal((await t.call('CloseStdin', all(inside(1, selector(pid))), { codec: 'proto' })).status, 200);
  let out = Buffer.alloc(0);
  let end;
  for await (const event of events) {
    if (event[2]) out = Buffer.concat([out, read(event[2][0])[1][0]]);
    if (event[3]) [end] = event[3];
  }
  assert.deepEqual(out, Buffer.from('/usr\nbin\n\0\xff', 'latin1'));
  const reader = new BinaryReader(end);
  assert.deepEqual(reader.tag(), [1, WireType.Varint]);
  assert.equal(reader.sint32(), 9);
});

check('binary_end_by_signal_is_minus_one', async (t) => {
  const { events } = await start(t, '/bin/sh', ['-c', 'kill -9 $$']);
  let end;
  for await (const event of events) if (event[3]) [end] = event[3];
  const reader = new BinaryReader(end);
  reader.tag();
  assert.equal(reader.sint32(), -1);
  assert.deepEqual(reader.tag(), [3, WireType.LengthDelimited], 'false is omitted');
  assert.equal(reader.string(), 'signal: killed');
});

check('binary_terminal_is_listed_resized_signalled_and_connected', async (t) => {
  const size = all((writer) => writer.tag(1, WireType.Varint).uint32(70).tag(2, WireType.Varint).uint32(20));
  const pty = all(inside(1, size));
  const { pid, events } = await start(t, '/bin/sh', ['-c', 'stty size; exec sleep 300'], [inside(2, pty), text(3, 'bin-tag')]);
  const first = (await events.next()).value;
  assert.equal(read(first[2][0])[3][0].toString(), '20 70\r\n');
  const listed = read((await t.call('List', Buffer.alloc(0), { codec: 'proto' })).bytes)[1].map(read);
  const found = listed.find((process) => process[2][0] === pid);
  assert.equal(found[3][0].toString(), 'bin-tag');
  assert.equal(read(found[1][0])[1][0].toString(), '/bin/sh');
  const bigger = all(inside(1, all((writer) => writer.tag(1, WireType.Varint).uint32(99).tag(2, WireType.Varint).uint32(33))));
  assert.equal((await t.call('Update', all(inside(1, selector(pid)), inside(2, bigger)), { codec: 'proto' })).status, 200);
  assert.equal((await t.info(pid)).cols, 99);
  const signal = all(inside(1, all(text(2, 'bin-tag'))), (writer) => writer.tag(2, WireType.Varint).int32(9));
  assert.equal((await t.call('SendSignal', signal, { codec: 'proto' })).status, 200);
  const connect = await t.stream('Connect', all(inside(1, selector(pid))), { codec: 'proto' });
  const payload = (await connect.envelopes.next()).value.payload;
  assert.equal(read(read(read(payload)[1][0])[1][0])[1][0], pid);
});

check('binary_garbage_is_invalid_argument', async (t) => {
  for (const body of [Buffer.from([0xff]), Buffer.from([0x0a, 0x7f]), Buffer.alloc(64, 0x0b)]) {
    const { status, json, type } = await t.call('CloseStdin', body, { codec: 'proto' });
    assert.deepEqual([status, json?.code, type], [400, 'invalid_argument', 'application/json']);
  }
});
