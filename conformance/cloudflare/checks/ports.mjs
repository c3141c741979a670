// Watching a port.

import assert from 'node:assert/strict';
import http from 'node:http';
import net from 'node:net';
import { TIMEOUT_MS, eventually, expectRejection, withTimeout } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { Gate } from '../../_shared/gate.mjs';
import { parseSSEStream } from '../support.mjs';

async function freePort() {
  const server = net.createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

const listen = async (t, port, handler) => {
  const server = http.createServer(handler).listen(port, '127.0.0.1');
  t.cleanUpSteps.push(() => server.close());
  await new Promise((resolve) => server.once('listening', resolve));
};

check('port_watch_reports_ready_over_tcp_and_http', async (t) => {
  const { ports } = t.client();
  const port = await freePort();
  const tcp = t.events(ports.watchPort({ port, mode: 'tcp', interval: 100 }));
  let status = 500;
  const later = t.events(ports.watchPort({ port, mode: 'http', path: '/health', interval: 100 }));
  await listen(t, port, ({ url }, response) => response.writeHead(url === '/health' ? status : 404).end());
  const [watching, ready] = await tcp;
  assert.deepEqual([watching.type, watching.port, ready.type, ready.port], ['watching', port, 'ready', port]);
  assert.ok(!('statusCode' in ready));
  status = 302;
  const events = await later;
  assert.deepEqual([events.at(-1).type, events.at(-1).statusCode], ['ready', 302]);
  const narrow = await t.events(ports.watchPort({ port, mode: 'http', path: '/nothing', statusMin: 404, statusMax: 404, interval: 100 }));
  assert.equal(narrow.at(-1).statusCode, 404);
});

check('port_watch_ends_when_its_process_exits', async (t) => {
  const port = await freePort();
  const gate = new Gate(t.cleanUpSteps);
  // The poll interval is ten seconds. A server that noticed the exit only then would exceed the time limit of this
  // check.
  for (let round = 0; round < 8; round += 1) {
    const { processId } = await t.start(`${gate.waitCommand}; exit 7`);
    let last;
    for await (const event of parseSSEStream(await t.client().ports.watchPort({ port, mode: 'tcp', processId, interval: 10_000 }))) {
      if (event.type === 'watching') gate.release();
      last = event;
    }
    assert.deepEqual([last.type, last.exitCode], ['process_exited', 7]);
  }
});

check('port_watch_reports_ready_when_the_process_listens', async (t) => {
  const port = await freePort();
  const { processId } = await t.start(`sleep 0.5; exec python3 -m http.server ${port} --bind 127.0.0.1`, { cwd: '/usr' });
  const events = await t.events(t.client().ports.watchPort({ port, mode: 'http', processId, interval: 100 }));
  assert.deepEqual([events.at(-1).type, events.at(-1).statusCode], ['ready', 200]);
});

check('port_watch_refuses_invalid_requests_and_can_be_cancelled', async (t) => {
  const { ports } = t.client();
  await expectRejection(ports.watchPort({ port: 0, mode: 'tcp' }), 'InvalidPortError');
  await expectRejection(ports.watchPort({ port: 65_536, mode: 'tcp' }), 'InvalidPortError');
  await expectRejection(ports.watchPort({ port: 80, mode: 'udp' }), 'ValidationFailedError');
  await expectRejection(ports.watchPort({ port: 80, mode: 'http', path: 'x y' }), 'ValidationFailedError');
  await expectRejection(ports.watchPort({ port: 80, mode: 'tcp', processId: 'unknown' }), 'ProcessNotFoundError');
  const stream = await ports.watchPort({ port: await freePort(), mode: 'tcp', interval: 100 });
  for await (const event of parseSSEStream(stream)) {
    assert.equal(event.type, 'watching');
    break;
  }
  assert.equal((await withTimeout(TIMEOUT_MS, 'another call', t.run('echo on'))).stdout, 'on\n');
  await eventually('health', async () => (await t.native('GET', '/v1/health')).status === 'ok');
});
