// The container API over one WebSocket.

import assert from 'node:assert/strict';
import { TIMEOUT_MS, eventually, numbers, printNumbers, expectRejection, withTimeout } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { Gate } from '../../_shared/gate.mjs';
import { STATELESS, parseSSEStream, textOf } from '../support.mjs';

check('socket_carries_all_calls_of_the_client', async (t) => {
  for (const path of ['/ws', '/api/ws']) {
    const client = t.overSocket(path);
    await client.connect();
    assert.equal(client.getTransportMode(), 'websocket');
    assert.equal(await client.utils.ping(), 'pong');
    const id = t.session();
    await client.utils.createSession({ id, cwd: '/usr' });
    assert.equal((await client.commands.execute('pwd', id)).stdout, '/usr\n');
    await expectRejection(client.utils.createSession({ id }), 'SessionAlreadyExistsError');
    await expectRejection(client.processes.getProcess('unknown'), 'ProcessNotFoundError');
    const { processId } = await t.start('echo up; exit 3', {}, client);
    const events = await t.events(client.processes.streamProcessLogs(processId));
    assert.deepEqual([textOf(events), events.at(-1).exitCode], ['up\n', 3]);
    const streamed = await t.events(client.commands.executeStream('echo a; exit 2', STATELESS));
    assert.deepEqual([textOf(streamed), streamed.at(-1).exitCode], ['a\n', 2]);
    assert.equal((await client.processes.killAllProcesses).name, 'killAllProcesses');
  }
});

check('socket_responds_out_of_order', async (t) => {
  const client = t.overSocket();
  const gates = [1, 2, 3].map(() => new Gate(t.cleanUpSteps));
  await client.connect();
  const replies = gates.map(({ waitCommand }, n) => client.commands.execute(`${waitCommand}; echo ${n}`, STATELESS));
  // The last request first: the others cannot have finished.
  for (const n of [2, 1, 0]) {
    gates[n].release();
    assert.equal((await withTimeout(TIMEOUT_MS, `reply ${n}`, replies[n])).stdout, `${n}\n`);
  }
});

check('socket_carries_64_requests_at_once', async (t) => {
  const client = t.overSocket();
  await client.connect();
  const all = await Promise.all([...Array(64).keys()].map((n) => client.commands.execute(`echo ${n}`, STATELESS)));
  all.forEach(({ stdout }, n) => assert.equal(stdout, `${n}\n`));
});

check('socket_carries_20_megabytes_exactly', async (t) => {
  const length = 20_000_000;
  const events = await t.events(t.overSocket().commands.executeStream(printNumbers(length), STATELESS));
  assert.ok(textOf(events) === numbers(length).toString());
});

check('socket_cancel_ends_the_stream_and_not_the_process', async (t) => {
  const client = t.overSocket();
  const { processId } = await t.start('while :; do echo tick; sleep 0.1; done', {}, client);
  const attached = async () => (await t.info(processId)).attachments;
  const stream = await client.processes.streamProcessLogs(processId);
  for await (const event of parseSSEStream(stream)) if (event.type === 'stdout') break;
  await eventually('no client is attached', async () => (await attached()) === 0);
  assert.equal((await client.processes.getProcess(processId)).process.status, 'running');
  // Closing the socket has the same effect.
  const second = t.overSocket();
  await second.processes.streamProcessLogs(processId);
  await eventually('it is attached', async () => (await attached()) === 1);
  second.disconnect();
  await eventually('no client is attached', async () => (await attached()) === 0);
  assert.equal((await client.processes.getProcess(processId)).process.status, 'running');
});

check('socket_protocol_errors_do_not_close_the_connection', async (t) => {
  const { send, frames, socket } = await t.socket(`${t.ws}/ws`);
  const reply = (id) => eventually(`a reply to ${id}`, () => frames.find((frame) => frame.id === id && (frame.done || frame.type === 'error')));
  send({ type: 'request', id: 'one', method: 'GET', path: '/api/ping' });
  const { type, status, body, done } = await reply('one');
  assert.deepEqual([type, status, body.status, done], ['response', 200, 'healthy', true]);
  send({ type: 'request', id: 'two', method: 'GET', path: '/api/nowhere' });
  assert.deepEqual([(await reply('two')).status, (await reply('two')).body.code], [404, 'UNKNOWN_ERROR']);
  send('nonsense');
  await eventually('PARSE_ERROR', () => frames.find(({ code }) => code === 'PARSE_ERROR'));
  send({ type: 'surprise', id: 'three' });
  assert.equal((await reply('three')).code, 'INVALID_REQUEST');
  send({ type: 'request', id: 'four', method: 'GET', path: 'no slash' });
  assert.equal((await reply('four')).code, 'INVALID_REQUEST');
  send({ type: 'request', method: 'GET', path: '/api/ping' });
  await eventually('INVALID_REQUEST without an id', () => frames.find(({ code, id }) => code === 'INVALID_REQUEST' && id === undefined));
  send({ type: 'cancel', id: 'unknown' });
  send({ type: 'request', id: 'five', method: 'POST', path: '/api/execute', body: { command: 'echo $0' }, headers: { 'x-session-id': t.session() } });
  assert.equal((await reply('five')).body.sessionId, [...t.sessions][0], 'headers of the frame apply');
  send(Buffer.from([1, 2, 3]));
  send({ type: 'request', id: 'six', method: 'GET', path: '/api/version' });
  assert.equal((await reply('six')).status, 200);
  assert.equal(socket.readyState, 1);
  const plain = await t.raw('GET', '/ws');
  assert.equal(plain.status, 426);
});

check('socket_with_250_unread_logs_does_not_delay_other_clients', async (t) => {
  const length = 9_000_000;
  const { processId } = await t.start(`${printNumbers(length)}; ${printNumbers(1000)} >&2`);
  await t.events(t.client().processes.streamProcessLogs(processId));
  const stalled = await t.socket(`${t.ws}/ws`, { reads: false });
  for (let n = 0; n < 250; n += 1) stalled.send({ type: 'request', id: `${n}`, method: 'GET', path: `/api/process/${processId}/logs` });
  for (let n = 0; n < 20; n += 1) await withTimeout(TIMEOUT_MS, 'a ping', t.client().utils.ping());
  // A client that reads receives all of it, over HTTP and over a socket.
  for (const client of [t.client(), t.overSocket()]) {
    const { stdout, stderr } = await client.processes.getProcessLogs(processId);
    assert.ok(stdout === numbers(length).toString());
    assert.ok(stderr === numbers(1000).toString());
  }
});
