// The container's API over one socket.

import assert from 'node:assert/strict';
import { PATIENCE_MS, eventually, numbers, printNumbers, refused, within } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { Gate } from '../../_shared/pace.mjs';
import { STATELESS, parseSSEStream, textOf } from '../support.mjs';

check('socket_carries_the_whole_client', async (t) => {
  for (const path of ['/ws', '/api/ws']) {
    const client = t.overSocket(path);
    await client.connect();
    assert.equal(client.getTransportMode(), 'websocket');
    assert.equal(await client.utils.ping(), 'pong');
    const id = t.session();
    await client.utils.createSession({ id, cwd: '/usr' });
    assert.equal((await client.commands.execute('pwd', id)).stdout, '/usr\n');
    await refused(client.utils.createSession({ id }), 'SessionAlreadyExistsError');
    await refused(client.processes.getProcess('nobody'), 'ProcessNotFoundError');
    const { processId } = await t.start('echo up; exit 3', {}, client);
    const events = await t.events(client.processes.streamProcessLogs(processId));
    assert.deepEqual([textOf(events), events.at(-1).exitCode], ['up\n', 3]);
    const streamed = await t.events(client.commands.executeStream('echo a; exit 2', STATELESS));
    assert.deepEqual([textOf(streamed), streamed.at(-1).exitCode], ['a\n', 2]);
    assert.equal((await client.processes.killAllProcesses).name, 'killAllProcesses');
  }
});

check('socket_answers_out_of_order', async (t) => {
  const client = t.overSocket();
  const gates = [1, 2, 3].map(() => new Gate(t.atEnd));
  await client.connect();
  const answers = gates.map(({ wait }, n) => client.commands.execute(`${wait}; echo ${n}`, STATELESS));
  // The last one first: those before it cannot have ended.
  for (const n of [2, 1, 0]) {
    gates[n].letPass();
    assert.equal((await within(PATIENCE_MS, `answer ${n}`, answers[n])).stdout, `${n}\n`);
  }
});

check('socket_carries_64_at_once', async (t) => {
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
  await eventually('nobody is attached', async () => (await attached()) === 0);
  assert.equal((await client.processes.getProcess(processId)).process.status, 'running');
  // And so does the end of the socket.
  const second = t.overSocket();
  await second.processes.streamProcessLogs(processId);
  await eventually('it is attached', async () => (await attached()) === 1);
  second.disconnect();
  await eventually('nobody is attached again', async () => (await attached()) === 0);
  assert.equal((await client.processes.getProcess(processId)).process.status, 'running');
});

check('socket_protocol', async (t) => {
  const { say, frames, socket } = await t.socket(`${t.ws}/ws`);
  const answer = (id) => eventually(`an answer to ${id}`, () => frames.find((frame) => frame.id === id && (frame.done || frame.type === 'error')));
  say({ type: 'request', id: 'one', method: 'GET', path: '/api/ping' });
  const { type, status, body, done } = await answer('one');
  assert.deepEqual([type, status, body.status, done], ['response', 200, 'healthy', true]);
  say({ type: 'request', id: 'two', method: 'GET', path: '/api/nowhere' });
  assert.deepEqual([(await answer('two')).status, (await answer('two')).body.code], [404, 'UNKNOWN_ERROR']);
  say('nonsense');
  await eventually('PARSE_ERROR', () => frames.find(({ code }) => code === 'PARSE_ERROR'));
  say({ type: 'surprise', id: 'three' });
  assert.equal((await answer('three')).code, 'INVALID_REQUEST');
  say({ type: 'request', id: 'four', method: 'GET', path: 'no slash' });
  assert.equal((await answer('four')).code, 'INVALID_REQUEST');
  say({ type: 'request', method: 'GET', path: '/api/ping' });
  await eventually('INVALID_REQUEST without an id', () => frames.find(({ code, id }) => code === 'INVALID_REQUEST' && id === undefined));
  say({ type: 'cancel', id: 'nobody' });
  say({ type: 'request', id: 'five', method: 'POST', path: '/api/execute', body: { command: 'echo $0' }, headers: { 'x-session-id': t.session() } });
  assert.equal((await answer('five')).body.sessionId, [...t.sessions][0], 'headers of the frame count');
  say(Buffer.from([1, 2, 3]));
  say({ type: 'request', id: 'six', method: 'GET', path: '/api/version' });
  assert.equal((await answer('six')).status, 200);
  assert.equal(socket.readyState, 1);
  const plain = await t.raw('GET', '/ws');
  assert.equal(plain.status, 426);
});

check('socket_that_asks_for_logs_and_never_reads_stops_nobody', async (t) => {
  const length = 9_000_000;
  const { processId } = await t.start(`${printNumbers(length)}; ${printNumbers(1000)} >&2`);
  await t.events(t.client().processes.streamProcessLogs(processId));
  const stuck = await t.socket(`${t.ws}/ws`, { reads: false });
  for (let n = 0; n < 250; n += 1) stuck.say({ type: 'request', id: `${n}`, method: 'GET', path: `/api/process/${processId}/logs` });
  for (let n = 0; n < 20; n += 1) await within(PATIENCE_MS, 'a ping', t.client().utils.ping());
  // And who reads gets all of it, over HTTP and over a socket.
  for (const client of [t.client(), t.overSocket()]) {
    const { stdout, stderr } = await client.processes.getProcessLogs(processId);
    assert.ok(stdout === numbers(length).toString());
    assert.ok(stderr === numbers(1000).toString());
  }
});
