// Deletes and aborts end the whole tree.

import assert from 'node:assert/strict';
import { eventually, uniqueMarker } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { checkInEmptyHome } from '../empty-home.mjs';
import { data, expectError } from '../support.mjs';

/** A child, one that ignores signals, and one in its own session; the marker is in each command line. */
const family = (name) => `
  sleep 300.${name.length} ${name} 2>/dev/null || sh -c 'sleep 300; : ${name}' &
  sh -c 'trap "" HUP TERM INT; while :; do sleep 1; done; : ${name}' &
  setsid sh -c 'trap "" HUP TERM; while :; do sleep 1; done; : ${name}' &
  echo started; wait; while :; do sleep 1; done; : ${name}`;

// In the original two of three processes survive.
check('beyond_delete_ends_the_whole_tree', async (t) => {
  const name = uniqueMarker();
  const pty = await t.pty(`trap "" HUP TERM; ${family(name)}`);
  await t.waitForOutput(pty, 'started');
  await eventually('all of them run', async () => (await t.countProcesses(name)) >= 4);
  assert.equal(data(await t.sdkV2.pty.remove({ ptyID: pty.id })), true);
  await eventually('all are killed', async () => (await t.countProcesses(name)) === 0);
});

// In the original two of three processes survive.
checkInEmptyHome('beyond_abort_ends_the_whole_tree', async (t) => {
  const name = uniqueMarker();
  const session = await t.session();
  const done = t.shell(family(name), session);
  await eventually('all of them run', async () => (await t.countProcesses(name)) >= 4);
  assert.equal(data(await t.sdkV2.session.abort({ sessionID: session.id })), true);
  assert.equal(await t.countProcesses(name), 0, 'the tree is killed when abort returns');
  const { state } = await done;
  assert.deepEqual([state.status, state.metadata.aborted], ['completed', true]);
  assert.ok(state.output.endsWith('started\n\n\n<metadata>\nUser aborted the command\n</metadata>'), state.output);
});

checkInEmptyHome('abort_works_with_the_v1_client_and_for_an_idle_session', async (t) => {
  const session = await t.session();
  assert.equal(data(await t.sdkV1.session.abort({ path: { id: session.id } })), true);
  const done = t.shell('echo on; sleep 60', session);
  await eventually('on', async () => data(await t.sdkV2.session.messages({ sessionID: session.id }))[1]?.parts[0].state.metadata?.output === 'on\n');
  assert.equal(data(await t.sdkV1.session.abort({ path: { id: session.id } })), true);
  assert.equal((await t.shell('echo free', session)).state.output, 'free\n', 'the session is idle when abort returns');
  assert.match((await done).state.output, /^on\n\n\n<metadata>/);
});

checkInEmptyHome('session_delete_ends_its_running_command', async (t) => {
  const name = uniqueMarker();
  const session = await t.session();
  const done = t.sdkV2.session.shell({ sessionID: session.id, agent: 'build', command: family(name) });
  await eventually('all of them run', async () => (await t.countProcesses(name)) >= 4);
  assert.equal(data(await t.sdkV2.session.delete({ sessionID: session.id })), true);
  assert.equal(await t.countProcesses(name), 0);
  await done;
  expectError(await t.sdkV2.session.messages({ sessionID: session.id }), 404);
});
