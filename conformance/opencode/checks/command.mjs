// Named commands: a program with arguments, recorded like a shell command.

import assert from 'node:assert/strict';
import { checkInEmptyHome as check } from '../empty-home.mjs';
import { data, expectError } from '../support.mjs';

check('command_runs_a_program_with_its_arguments_in_both_clients', async (t) => {
  const events = await t.events();
  const session = await t.session();
  const words = `'[%s]' "two words" \\$HOME 'it is'`;
  const bySecond = data(await t.sdkV2.session.command({ sessionID: session.id, command: 'printf', arguments: words, model: 'p/m' }));
  assert.equal(bySecond.parts[0].state.output, '[two words][$HOME][it is]');
  assert.deepEqual([bySecond.parts[0].state.metadata.exit, bySecond.info.providerID, bySecond.info.modelID], [0, 'p', 'm']);
  assert.deepEqual(bySecond.parts[0].state.input, { command: `printf ${words}` });
  const executed = await events.waitForType('command.executed', session.id);
  assert.deepEqual(executed.properties, { name: 'printf', sessionID: session.id, arguments: words, messageID: bySecond.info.id });
  const byFirst = data(await t.sdkV1.session.command({ path: { id: session.id }, body: { command: 'sh', arguments: `-c 'echo hi; exit 9'` } }));
  assert.deepEqual([byFirst.parts[0].state.output, byFirst.parts[0].state.metadata.exit], ['hi\n', 9]);
  assert.deepEqual(data(await t.sdkV2.session.messages({ sessionID: session.id })).map(({ info }) => info.role), ['user', 'assistant', 'user', 'assistant']);
});

check('command_that_is_unknown_is_an_error_in_the_session', async (t) => {
  const events = await t.events();
  const session = await t.session();
  const error = expectError(await t.sdkV2.session.command({ sessionID: session.id, command: 'no-such-command', arguments: '' }), 400);
  assert.match(error.data.message, /no-such-command: command not found/);
  assert.match((await events.waitForType('session.error', session.id)).properties.error.data.message, /command not found/);
  await events.waitForType('session.idle', session.id);
});

check('command_refuses_invalid_requests', async (t) => {
  const { id: sessionID } = await t.session();
  const call = (body) => t.sdkV2.session.command({ sessionID, ...body });
  assert.equal(expectError(await call({ command: 'true' }), 400).data.kind, 'Payload');
  assert.equal(expectError(await call({ arguments: '' }), 400).data.kind, 'Payload');
  assert.match(expectError(await call({ command: 'echo', arguments: `'open` }), 400).data.message, /quote/);
  expectError(await call({ command: ' ', arguments: '' }), 400);
});
