// The server dies in the middle, or is replaced.

import assert from 'node:assert/strict';
import { eventually } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { Gate } from '../../_shared/pace.mjs';
import { alone } from '../early.mjs';
import { STATELESS, parseSSEStream, textOf } from '../support.mjs';

check('survival_processes_streams_and_chosen_ids', async (t) => {
  await alone();
  const processId = `survivor-${process.pid}`;
  const count = 2_000;
  const gate = new Gate(t.atEnd);
  await t.start(`for i in $(seq 1 ${count}); do echo $i; done; ${gate.wait}; for i in $(seq ${count + 1} ${2 * count}); do echo $i; done; exit 3`, { processId });
  const seen = [];
  const broken = (async () => {
    try {
      for await (const event of parseSSEStream(await t.client().processes.streamProcessLogs(processId))) seen.push(event);
    } catch {
      // That is what is to happen.
    }
  })();
  await eventually('some of it', () => textOf(seen) !== '');
  await t.killServer();
  await broken;
  assert.ok(!seen.some(({ type }) => type === 'exit'), 'no end was made up');
  gate.letPass();
  const events = await t.events(t.client().processes.streamProcessLogs(processId));
  assert.equal(textOf(events), [...Array(2 * count).keys()].map((n) => `${n + 1}\n`).join(''));
  assert.equal(events.at(-1).exitCode, 3);
});

check('survival_sessions_keep_their_state_and_a_running_command', async (t) => {
  await alone();
  const id = t.session();
  await t.client().commands.execute('cd /usr; V=kept', id);
  const gate = new Gate(t.atEnd);
  const running = t.client().commands.execute(`${gate.wait}; W=done`, id).catch((error) => error);
  await gate.arrived();
  await t.killServer();
  assert.ok((await running) instanceof Error);
  gate.letPass();
  assert.equal((await t.client().commands.execute('pwd; echo $V $W', id)).stdout, '/usr\nkept done\n');
});

check('survival_the_addon_comes_back_to_its_shell', async (t) => {
  await alone();
  const { screen, addon, connected } = t.addon();
  await connected();
  screen.type("PS1=''; stty -echo; V=still; echo re''ady\n");
  await screen.seen.until('ready');
  await t.killServer();
  await eventually('connected again', () => addon.state === 'connected' && addon.socket?.readyState === 1);
  screen.type('echo $V here\n');
  await screen.seen.until('still here');
});

check('survival_a_run_dies_with_its_server_and_says_so', async (t) => {
  await alone();
  const run = t.run('sleep 300').then(() => assert.fail('it ended well'), (error) => error);
  await eventually('it runs', async () => (await t.native('GET', '/v1/processes?all=true&status=running')).processes.some(({ args }) => args?.[1] === 'sleep 300'));
  await t.killServer();
  assert.ok((await run) instanceof Error);
  await eventually('it is gone', async () => !(await t.native('GET', '/v1/processes?all=true&status=running')).processes.some(({ args }) => args?.[1] === 'sleep 300'));
});

// A 503 would make the client ask again by itself, for two minutes.
check('survival_an_upgrade_does_not_make_the_client_run_a_command_twice', async (t) => {
  await alone();
  const id = t.session();
  await t.client().commands.execute('N=0', id);
  const gate = new Gate(t.atEnd);
  const running = t.client({ retryTimeoutMs: 60_000 }).commands.execute(`N=$((N+1)); ${gate.wait}`, id).catch((error) => error);
  await gate.arrived();
  await t.native('POST', '/v1/upgrade', {});
  assert.equal((await running).name, 'OperationInterruptedError');
  // Also for one that would run it again.
  gate.letPass(2);
  // A connection that was kept open may break with the old server.
  const next = await eventually('an answer', () => t.client().commands.execute('echo $N', id).catch(() => undefined));
  assert.equal(next.stdout, '1\n');
});

check('survival_an_upgrade_ends_streams_with_a_word', async (t) => {
  await alone();
  const { processId } = await t.start('echo up; sleep 300');
  const stream = await t.client().processes.streamProcessLogs(processId);
  const socket = await t.socket(`${t.ws}/ws`);
  const events = t.events(stream);
  await eventually('up', async () => (await t.client().processes.getProcessLogs(processId)).stdout === 'up\n');
  await t.native('POST', '/v1/upgrade', {});
  const last = (await events).at(-1);
  assert.equal(last.type, 'error');
  assert.match(last.error, /replaced/);
  assert.equal(await socket.closed, 1012);
  assert.equal((await t.client().processes.getProcess(processId)).process.status, 'running');
  assert.notEqual(STATELESS, processId);
});
