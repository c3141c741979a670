// What the user types arrives; what the emulator answers to questions out of the past does not.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { scripted } from '../../client/test/support/scripted.mjs';
import { until } from '../../client/test/support/server.mjs';
import { open, shown } from './support/terminal.mjs';

/** Answered with ESC [ 0 n. */
const QUESTION = '\x1b[5n';
const ANSWER = '\x1b[0n';
const typed = ({ received }) => received.filter((frame) => typeof frame === 'string').join('');

test('questions in a repaint are not answered, those after it are', async () => {
  const server = await scripted();
  const { addon } = open();
  addon.connect(server.process);
  const connection = await server.next();
  connection.ready(0).repaint(0, [`\x1bc${QUESTION}\x1b[c\x1b[>c\x1b[6n\x1b[?1004h`]).bytes(QUESTION);
  await until('the live one is answered', () => typed(connection) !== '');
  addon.write('end');
  await until('what came after it', () => typed(connection).endsWith('end'));
  assert.equal(typed(connection), `${ANSWER}end`);
});

test('questions in replayed bytes are not answered, also where the past ends in the middle of a frame', async () => {
  const server = await scripted({ outputEnd: 8 });
  const { terminal, addon } = open({ begin: { from: 0 } });
  terminal.write('something of before');
  addon.connect(server.process);
  const connection = await server.next();
  assert.equal(connection.query.from, '0');
  connection.ready(0).bytes(`${QUESTION}${QUESTION}${QUESTION}`, 'shown');
  await until('all is there', () => shown(terminal)[0] === 'shown');
  addon.write('end');
  await until('what came after it', () => typed(connection).endsWith('end'));
  assert.equal(typed(connection), `${ANSWER}end`, 'of three questions the last was live');
});

test('what was printed while the connection was lost is the past', async () => {
  const server = await scripted();
  const { terminal, addon } = open({ begin: 'now' });
  addon.connect(server.process);
  const first = await server.next();
  first.ready(0).bytes('abc');
  await until('it is shown', () => shown(terminal)[0] === 'abc');
  server.info.outputEnd = 7;
  first.lose();
  const second = await server.next();
  second.ready(3).bytes(QUESTION, 'def');
  await until('it goes on', () => shown(terminal)[0] === 'abcdef');
  addon.write('end');
  await until('what came after it', () => typed(second).endsWith('end'));
  assert.equal(typed(second), 'end');
});

test('what is typed while the past is parsed arrives', async () => {
  const length = 40;
  const server = await scripted({ outputEnd: length * QUESTION.length });
  const { terminal, addon } = open({ begin: { from: 0 } });
  let keys = '';
  // Keys come between two pieces, each in a turn of its own.
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
  connection.ready(0).bytes(...Array.from({ length }, () => QUESTION)).bytes('shown');
  await until('all is there', () => shown(terminal)[0] === 'shown');
  await until('all was typed', () => keys.length === length);
  addon.write('end');
  await until('what came after it', () => typed(connection).endsWith('end'));
  assert.equal(typed(connection), `${keys}end`);
});

test('of several writers one answers', async () => {
  const server = await scripted();
  const { terminal, addon } = open({ answers: false });
  addon.connect(server.process);
  const connection = await server.next();
  connection.ready(0).repaint(0, ['\x1bc']).bytes(`${QUESTION}shown`);
  await until('it is there', () => shown(terminal)[0] === 'shown');
  terminal.input('typed');
  await until('what was typed', () => typed(connection) !== '');
  assert.equal(typed(connection), 'typed');
});

test('what is typed without a connection waits for one', async () => {
  const server = await scripted();
  const { terminal, addon, states } = open();
  terminal.input('nobody is there: lost');
  addon.connect(server.process);
  terminal.input('a');
  const first = await server.next();
  first.ready(0).repaint(0, ['\x1bcone']);
  await until('it was typed', () => typed(first) === 'a');
  first.lose();
  await until('it is noticed', () => states.includes('reconnecting'));
  terminal.input('b');
  const second = await server.next();
  second.ready(0, { inputOffset: 1 });
  await until('it was typed later', () => typed(second) === 'b');
});

test('input that is no text arrives as the bytes that it is', async () => {
  const server = await scripted();
  const { terminal, addon } = open();
  addon.connect(server.process);
  const connection = await server.next();
  connection.ready(0).repaint(0, ['\x1bc']);
  // The mouse protocol that has bytes above 127 belongs to the DOM; the event is the same.
  terminal._core.coreService.triggerBinaryEvent('\x1b[M \xff\x80');
  await until('it was typed', () => typed(connection) === '\x1b[M \xff\x80');
});

test('a viewer types nothing, sizes nothing, and gets its keyboard back', async () => {
  const server = await scripted();
  const { terminal, addon, states } = open();
  addon.connect(server.process, { readOnly: true });
  assert.equal(terminal.options.disableStdin, true);
  const connection = await server.next();
  assert.deepEqual([connection.query.role, connection.query.cols], ['viewer', undefined]);
  connection.ready(0, { cols: 50, rows: 20 }).repaint(0, ['\x1bc'], { cols: 50, rows: 20 }).bytes(`${QUESTION}shown`);
  await until('it is there', () => shown(terminal)[0] === 'shown');
  terminal.input('typed');
  terminal.resize(70, 20);
  await until('it has the size of the others again', () => terminal.cols === 50);
  connection.exit(9);
  await until('it has ended', () => states.includes('exited'));
  assert.equal(terminal.options.disableStdin, false);
  assert.ok(connection.received.every(({ type }) => type === 'ack'), JSON.stringify(connection.received));
});
