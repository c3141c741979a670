// The server dies in the middle, or is replaced.

import assert from 'node:assert/strict';
import { eventually } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { Gate } from '../../_shared/pace.mjs';
import { joined } from '../support.mjs';

check('survival_kill_9_in_the_middle_of_a_stream', async (t) => {
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

check('survival_background_logs_and_status', async (t) => {
  const gate = new Gate(t.atEnd);
  const id = await t.background(`echo before; ${gate.wait}; echo after; exit 4`);
  await eventually('the first line', async () => (await t.commands.getBackgroundCommandLogs(id)).content === 'before\n');
  await t.killServer();
  gate.letPass();
  const status = await t.untilOver(id);
  assert.deepEqual([status.exitCode, status.content.slice(0, 11)], [4, 'echo before']);
  assert.deepEqual(await t.commands.getBackgroundCommandLogs(id, 7), { content: 'after\n', cursor: 13 });
});

check('survival_terminal_by_offset', async (t) => {
  const { id, socket } = await t.shell();
  const before = socket.printed().length;
  const gate = new Gate(t.atEnd);
  socket.type(`echo sta""rted; ${gate.wait}; echo mis""sed\n`);
  await socket.until('started');
  await t.killServer();
  await socket.over();
  gate.letPass();
  const again = await t.connect(id, `?since=${before}`);
  again.type('echo he""re\n');
  await again.until('here');
  assert.equal((socket.printed().slice(before) + again.printed()).includes('missed'), true);
});

check('survival_terminal_that_nobody_has_started', async (t) => {
  const id = await t.pty({ command: 'echo late' });
  await t.killServer();
  const socket = await t.connect(id);
  await socket.text('exit');
  assert.equal(socket.printed(), 'late\r\n');
});

check('survival_session', async (t) => {
  const id = await t.commands.createSession({ workingDirectory: '/usr' });
  t.atEnd.push(() => t.commands.deleteSession(id));
  await t.commands.runInSession(id, 'export A=1; f() { echo from f; }');
  await t.killServer();
  assert.equal(joined((await t.commands.runInSession(id, 'pwd; echo $A; f')).logs.stdout), '/usr\n1\nfrom f');
});

check('survival_terminal_with_a_tag', async (t) => {
  const path = '/terminal?tag=survives-here';
  const socket = await t.socket(path);
  t.atEnd.push(() => t.native('POST', '/v1/processes/tag:survives-here/kill'));
  socket.ws.send(Buffer.from("stty -echo; A=1; echo se''t\n"));
  await socket.untilRaw('set');
  await t.killServer();
  await socket.over();
  const again = await t.socket(path);
  again.ws.send(Buffer.from("echo A=$A; exit\n"));
  await again.untilRaw('A=1');
});

check('survival_an_upgrade_cuts_streams_and_closes_sockets_with_a_word', async (t) => {
  const { socket } = await t.shell();
  const gate = new Gate(t.atEnd);
  const stream = await t.stream('POST', '/command', { command: `echo up; ${gate.wait}; exit 6` });
  let id;
  for await (const event of stream.events) {
    if (event.type === 'init') id = event.text;
    if (event.type === 'stdout') break;
  }
  await t.native('POST', '/v1/upgrade', {});
  assert.equal((await socket.over()).code, 1012);
  gate.letPass();
  const rest = await t.whole('GET', `/command/${id}/resume`);
  assert.deepEqual([rest.find(({ type }) => type === 'stdout').text, rest.at(-1).error.evalue], ['up', '6']);
});
