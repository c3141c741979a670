// Ends that take everything along.

import assert from 'node:assert/strict';
import { eventually, mark } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { checkInEmptyHome } from '../empty-home.mjs';
import { data, refused } from '../support.mjs';

/** A child, one that ignores signals, and one with a session of its own; each carries the mark. */
const family = (name) => `
  sleep 300.${name.length} ${name} 2>/dev/null || sh -c 'sleep 300; : ${name}' &
  sh -c 'trap "" HUP TERM INT; while :; do sleep 1; done; : ${name}' &
  setsid sh -c 'trap "" HUP TERM; while :; do sleep 1; done; : ${name}' &
  echo started; wait; while :; do sleep 1; done; : ${name}`;

// There two of three survive.
check('beyond_delete_ends_the_whole_tree', async (t) => {
  const name = mark();
  const pty = await t.pty(`trap "" HUP TERM; ${family(name)}`);
  await t.untilPrinted(pty, 'started');
  await eventually('all of them', async () => (await t.living(name)) >= 4);
  assert.equal(data(await t.second.pty.remove({ ptyID: pty.id })), true);
  await eventually('none of them', async () => (await t.living(name)) === 0);
});

// There two of three survive.
checkInEmptyHome('beyond_abort_ends_the_whole_tree', async (t) => {
  const name = mark();
  const session = await t.session();
  const done = t.shell(family(name), session);
  await eventually('all of them', async () => (await t.living(name)) >= 4);
  assert.equal(data(await t.second.session.abort({ sessionID: session.id })), true);
  assert.equal(await t.living(name), 0, 'when abort has answered');
  const { state } = await done;
  assert.deepEqual([state.status, state.metadata.aborted], ['completed', true]);
  assert.ok(state.output.endsWith('started\n\n\n<metadata>\nUser aborted the command\n</metadata>'), state.output);
});

checkInEmptyHome('abort_by_the_first_client_and_of_an_idle_session', async (t) => {
  const session = await t.session();
  assert.equal(data(await t.first.session.abort({ path: { id: session.id } })), true);
  const done = t.shell('echo on; sleep 60', session);
  await eventually('on', async () => data(await t.second.session.messages({ sessionID: session.id }))[1]?.parts[0].state.metadata?.output === 'on\n');
  assert.equal(data(await t.first.session.abort({ path: { id: session.id } })), true);
  assert.equal((await t.shell('echo free', session)).state.output, 'free\n', 'the session is free when abort has answered');
  assert.match((await done).state.output, /^on\n\n\n<metadata>/);
});

checkInEmptyHome('session_deleted_while_busy_ends_its_command', async (t) => {
  const name = mark();
  const session = await t.session();
  const done = t.second.session.shell({ sessionID: session.id, agent: 'build', command: family(name) });
  await eventually('all of them', async () => (await t.living(name)) >= 4);
  assert.equal(data(await t.second.session.delete({ sessionID: session.id })), true);
  assert.equal(await t.living(name), 0);
  await done;
  refused(await t.second.session.messages({ sessionID: session.id }), 404);
});
