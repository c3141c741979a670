// The server is killed or replaced.

import assert from 'node:assert/strict';
import { eventually } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { Gate } from '../../_shared/gate.mjs';
import { joined } from '../support.mjs';

check('survival_kill_9_during_a_stream_loses_no_event', async (t) => {
  const command = 'i=0; while [ $i -lt 150 ]; do echo $i; i=$((i+1)); sleep 0.01; done; exit 3';
  let stream = await t.stream('POST', '/command', { command });
  const seen = [];
  let id;
  let end;
  for (let round = 0; end === undefined; round += 1) {
    const take = async () => {
      for await (const event of stream.events) {
        if (event.type === 'init') id = event.text;
        if (event.type === 'stdout') seen.push(event);
        if (event.type === 'error') end = event;
        if (round < 2 && seen.length >= (round + 1) * 30) break;
      }
    };
    await take();
    if (end) break;
    await t.killServer();
    stream = await t.stream('GET', `/command/${id}/resume?after_eid=${seen.at(-1).eid}`);
  }
  assert.deepEqual(seen.map(({ text }) => text), [...Array(150).keys()].map(String));
  assert.equal(end.error.evalue, '3');
});

check('survival_background_logs_and_status_are_kept', async (t) => {
  const gate = new Gate(t.cleanUpSteps);
  const id = await t.background(`echo before; ${gate.waitCommand}; echo after; exit 4`);
  await eventually('the first line', async () => (await t.commands.getBackgroundCommandLogs(id)).content === 'before\n');
  await t.killServer();
  gate.release();
  const status = await t.waitForEnd(id);
  assert.deepEqual([status.exitCode, status.content.slice(0, 11)], [4, 'echo before']);
  assert.deepEqual(await t.commands.getBackgroundCommandLogs(id, 7), { content: 'after\n', cursor: 13 });
});

check('survival_terminal_resumes_by_offset', async (t) => {
  const { id, socket } = await t.shell();
  const before = socket.printed().length;
  const gate = new Gate(t.cleanUpSteps);
  socket.type(`echo sta""rted; ${gate.waitCommand}; echo mis""sed\n`);
  await socket.waitFor('started');
  await t.killServer();
  await socket.waitForClose();
  gate.release();
  const again = await t.connect(id, `?since=${before}`);
  again.type('echo he""re\n');
  await again.waitFor('here');
  assert.equal((socket.printed().slice(before) + again.printed()).includes('missed'), true);
});

check('survival_terminal_that_was_not_started_is_kept', async (t) => {
  const id = await t.pty({ command: 'echo late' });
  await t.killServer();
  const socket = await t.connect(id);
  await socket.waitForFrame('exit');
  assert.equal(socket.printed(), 'late\r\n');
});

check('survival_session_keeps_its_state', async (t) => {
  const id = await t.commands.createSession({ workingDirectory: '/usr' });
  t.cleanUpSteps.push(() => t.commands.deleteSession(id));
  await t.commands.runInSession(id, 'export A=1; f() { echo from f; }');
  await t.killServer();
  assert.equal(joined((await t.commands.runInSession(id, 'pwd; echo $A; f')).logs.stdout), '/usr\n1\nfrom f');
});

check('survival_terminal_with_a_tag_is_kept', async (t) => {
  const path = '/terminal?tag=survives-here';
  const socket = await t.socket(path);
  t.cleanUpSteps.push(() => t.native('POST', '/v1/processes/tag:survives-here/kill'));
  socket.ws.send(Buffer.from("stty -echo; A=1; echo se''t\n"));
  await socket.waitForRaw('set');
  await t.killServer();
  await socket.waitForClose();
  const again = await t.socket(path);
  again.ws.send(Buffer.from("echo A=$A; exit\n"));
  await again.waitForRaw('A=1');
});

check('survival_upgrade_ends_streams_and_closes_sockets_with_1012', async (t) => {
  const { socket } = await t.shell();
  const gate = new Gate(t.cleanUpSteps);
  const stream = await t.stream('POST', '/command', { command: `echo up; ${gate.waitCommand}; exit 6` });
  let id;
  for await (const event of stream.events) {
    if (event.type === 'init') id = event.text;
    if (event.type === 'stdout') break;
  }
  await t.upgradeServer();
  assert.equal((await socket.waitForClose()).code, 1012);
  gate.release();
  const rest = await t.collectStream('GET', `/command/${id}/resume`);
  assert.deepEqual([rest.find(({ type }) => type === 'stdout').text, rest.at(-1).error.evalue], ['up', '6']);
});
