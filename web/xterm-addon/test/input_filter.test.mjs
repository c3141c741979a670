// User input is sent; replies of the emulator to old terminal queries are not.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { scripted } from '../../client/test/support/scripted.mjs';
import { until } from '../../client/test/support/server.mjs';
import { open, shown } from './support/terminal.mjs';

/** Device status report and its reply. */
const QUERY = '\x1b[5n';
const REPLY = '\x1b[0n';
const typed = ({ received }) => received.filter((frame) => typeof frame === 'string').join('');

test('queries in a repaint are not answered and later ones are', async () => {
  const server = await scripted();
  const { addon } = open();
  addon.connect(server.process);
  const connection = await server.next();
  connection
    .ready(0)
    .repaint(0, [`\x1bc${QUERY}\x1b[c\x1b[>c\x1b[6n\x1b[?1004h`])
    .bytes(QUERY);
  await until('the live query is answered', () => typed(connection) !== '');
  addon.write('end');
  await until('later input arrives', () => typed(connection).endsWith('end'));
  assert.equal(typed(connection), `${REPLY}end`);
});

test('queries in replayed bytes are not answered although a frame contains old and new bytes', async () => {
  const server = await scripted({ outputEnd: 8 });
  const { terminal, addon } = open({ begin: { from: 0 } });
  terminal.write('old content');
  addon.connect(server.process);
  const connection = await server.next();
  assert.equal(connection.query.from, '0');
  connection.ready(0).bytes(`${QUERY}${QUERY}${QUERY}`, 'shown');
  await until('all output is shown', () => shown(terminal)[0] === 'shown');
  addon.write('end');
  await until('later input arrives', () => typed(connection).endsWith('end'));
  assert.equal(typed(connection), `${REPLY}end`, 'only the last of three queries is live');
});

test('queries printed while the connection was lost are not answered', async () => {
  const server = await scripted();
  const { terminal, addon } = open({ begin: 'now' });
  addon.connect(server.process);
  const first = await server.next();
  first.ready(0).bytes('abc');
  await until('the output is shown', () => shown(terminal)[0] === 'abc');
  server.info.outputEnd = 7;
  first.lose();
  const second = await server.next();
  second.ready(3).bytes(QUERY, 'def');
  await until('the output continues', () => shown(terminal)[0] === 'abcdef');
  addon.write('end');
  await until('later input arrives', () => typed(second).endsWith('end'));
  assert.equal(typed(second), 'end');
});

test('keys typed while old output is parsed are sent', async () => {
  const length = 40;
  const server = await scripted({ outputEnd: length * QUERY.length });
  const { terminal, addon } = open({ begin: { from: 0 } });
  let keys = '';
  // Keys arrive between two chunks, each in a task of its own.
  const press = () => {
    if (keys.length >= length) return;
    keys += 'k';
    terminal.input('k');
    setImmediate(press);
  };
  const write = terminal.write.bind(terminal);
  let written = 0;
  terminal.write = (data, parsed) => {
    if (written++ === 0) setImmediate(press);
    write(data, parsed);
  };
  addon.connect(server.process);
  const connection = await server.next();
  connection
    .ready(0)
    .bytes(...Array.from({ length }, () => QUERY))
    .bytes('shown');
  await until('all output is shown', () => shown(terminal)[0] === 'shown');
  await until('all keys are typed', () => keys.length === length);
  addon.write('end');
  await until('later input arrives', () => typed(connection).endsWith('end'));
  assert.equal(typed(connection), `${keys}end`);
});

test('with answers: false no query is answered', async () => {
  const server = await scripted();
  const { terminal, addon } = open({ answers: false });
  addon.connect(server.process);
  const connection = await server.next();
  connection.ready(0).repaint(0, ['\x1bc']).bytes(`${QUERY}shown`);
  await until('the output is shown', () => shown(terminal)[0] === 'shown');
  terminal.input('typed');
  await until('the input arrives', () => typed(connection) !== '');
  assert.equal(typed(connection), 'typed');
});

test('input without a connection waits for the next one', async () => {
  const server = await scripted();
  const { terminal, addon, states } = open();
  terminal.input('lost: the addon is not connecting yet');
  addon.connect(server.process);
  terminal.input('a');
  const first = await server.next();
  first.ready(0).repaint(0, ['\x1bcone']);
  await until('the first key arrives', () => typed(first) === 'a');
  first.lose();
  await until('the loss is noticed', () => states.includes('reconnecting'));
  terminal.input('b');
  const second = await server.next();
  second.ready(0, { inputOffset: 1 });
  await until('the second key arrives', () => typed(second) === 'b');
});

test('binary input is sent as bytes', async () => {
  const server = await scripted();
  const { terminal, addon } = open();
  addon.connect(server.process);
  const connection = await server.next();
  connection.ready(0).repaint(0, ['\x1bc']);
  // Only the DOM version of xterm.js sends mouse reports with bytes above 127; this triggers the same event.
  terminal._core.coreService.triggerBinaryEvent('\x1b[M \xff\x80');
  await until('the bytes arrive', () => typed(connection) === '\x1b[M \xff\x80');
});

test('a viewer sends no input and no size, and disableStdin is restored afterwards', async () => {
  const server = await scripted();
  const { terminal, addon, states } = open();
  addon.connect(server.process, { readOnly: true });
  assert.equal(terminal.options.disableStdin, true);
  const connection = await server.next();
  assert.deepEqual([connection.query.role, connection.query.cols], ['viewer', undefined]);
  connection.ready(0, { cols: 50, rows: 20 }).repaint(0, ['\x1bc'], { cols: 50, rows: 20 }).bytes(`${QUERY}shown`);
  await until('the output is shown', () => shown(terminal)[0] === 'shown');
  terminal.input('typed');
  terminal.resize(70, 20);
  await until('the emulator has the effective size again', () => terminal.cols === 50);
  connection.exit(9);
  await until('the process has exited', () => states.includes('exited'));
  assert.equal(terminal.options.disableStdin, false);
  assert.ok(
    connection.received.every(({ type }) => type === 'ack'),
    JSON.stringify(connection.received),
  );
});
