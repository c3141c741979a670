// The server is killed or replaced.

import assert from 'node:assert/strict';
import { eventually } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { Gate } from '../../_shared/gate.mjs';
import { waitForConcurrentChecks } from '../concurrent.mjs';
import { STATELESS, parseSSEStream, textOf } from '../support.mjs';

check('survival_process_with_a_chosen_id_loses_no_output', async (t) => {
  await waitForConcurrentChecks();
  const processId = `survivor-${process.pid}`;
  const count = 2_000;
  const gate = new Gate(t.cleanUpSteps);
  await t.start(`for i in $(seq 1 ${count}); do echo $i; done; ${gate.waitCommand}; for i in $(seq ${count + 1} ${2 * count}); do echo $i; done; exit 3`, { processId });
  const seen = [];
  const broken = (async () => {
    try {
      for await (const event of parseSSEStream(await t.client().processes.streamProcessLogs(processId))) seen.push(event);
    } catch {
      // The stream is expected to break.
    }
  })();
  await eventually('some output', () => textOf(seen) !== '');
  await t.killServer();
  await broken;
  assert.ok(!seen.some(({ type }) => type === 'exit'), 'no exit event before the exit');
  gate.release();
  const events = await t.events(t.client().processes.streamProcessLogs(processId));
  assert.equal(textOf(events), [...Array(2 * count).keys()].map((n) => `${n + 1}\n`).join(''));
  assert.equal(events.at(-1).exitCode, 3);
});

check('survival_sessions_keep_their_state_and_a_running_command', async (t) => {
  await waitForConcurrentChecks();
  const id = t.session();
  await t.client().commands.execute('cd /usr; V=kept', id);
  const gate = new Gate(t.cleanUpSteps);
  const running = t.client().commands.execute(`${gate.waitCommand}; W=done`, id).catch((error) => error);
  await gate.waitForArrivals();
  await t.killServer();
  assert.ok((await running) instanceof Error);
  gate.release();
  assert.equal((await t.client().commands.execute('pwd; echo $V $W', id)).stdout, '/usr\nkept done\n');
});

check('survival_addon_reconnects_to_its_shell', async (t) => {
  await waitForConcurrentChecks();
  const { screen, addon, connected } = t.addon();
  await connected();
  screen.type("PS1=''; stty -echo; V=still; echo re''ady\n");
  await screen.seen.waitFor('ready');
  await t.killServer();
  await eventually('connected again', () => addon.state === 'connected' && addon.socket?.readyState === 1);
  screen.type('echo $V here\n');
  await screen.seen.waitFor('still here');
});

check('survival_stateless_run_fails_and_is_killed_with_its_server', async (t) => {
  await waitForConcurrentChecks();
  const run = t.run('sleep 300').then(() => assert.fail('it must not succeed'), (error) => error);
  await eventually('it runs', async () => (await t.native('GET', '/v1/processes?all=true&status=running')).processes.some(({ args }) => args?.[1] === 'sleep 300'));
  await t.killServer();
  assert.ok((await run) instanceof Error);
  await eventually('it no longer exists', async () => !(await t.native('GET', '/v1/processes?all=true&status=running')).processes.some(({ args }) => args?.[1] === 'sleep 300'));
});

// A 503 would make the client retry for two minutes.
check('survival_upgrade_does_not_make_the_client_repeat_a_command', async (t) => {
  await waitForConcurrentChecks();
  const id = t.session();
  await t.client().commands.execute('N=0', id);
  const gate = new Gate(t.cleanUpSteps);
  const running = t.client({ retryTimeoutMs: 60_000 }).commands.execute(`N=$((N+1)); ${gate.waitCommand}`, id).catch((error) => error);
  await gate.waitForArrivals();
  await t.upgradeServer();
  assert.equal((await running).name, 'OperationInterruptedError');
  // Releases a repeated run too.
  gate.release(2);
  // A kept-alive connection may break with the old server.
  const next = await eventually('a reply', () => t.client().commands.execute('echo $N', id).catch(() => undefined));
  assert.equal(next.stdout, '1\n');
});

check('survival_upgrade_ends_streams_with_an_error_event', async (t) => {
  await waitForConcurrentChecks();
  const { processId } = await t.start('echo up; sleep 300');
  const stream = await t.client().processes.streamProcessLogs(processId);
  const socket = await t.socket(`${t.ws}/ws`);
  const events = t.events(stream);
  await eventually('up', async () => (await t.client().processes.getProcessLogs(processId)).stdout === 'up\n');
  await t.upgradeServer();
  const last = (await events).at(-1);
  assert.equal(last.type, 'error');
  assert.match(last.error, /replaced/);
  assert.equal(await socket.closed, 1012);
  assert.equal((await t.client().processes.getProcess(processId)).process.status, 'running');
  assert.notEqual(STATELESS, processId);
});
