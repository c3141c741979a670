// Shell commands whose output becomes part of a session.

import assert from 'node:assert/strict';
import { eventually, numbers, printNumbers } from '../../_shared/expect.mjs';
import { Gate } from '../../_shared/gate.mjs';
import { checkInEmptyHome as check } from '../empty-home.mjs';
import { data, expectError } from '../support.mjs';

check('shell_returns_message_and_part_in_both_clients', async (t) => {
  const session = await t.session();
  const byFirst = data(await t.sdkV1.session.shell({ path: { id: session.id }, body: { agent: 'build', command: 'echo one' } }));
  const bySecond = data(await t.sdkV2.session.shell({ sessionID: session.id, agent: 'plan', command: 'echo two', model: { providerID: 'p', modelID: 'm' } }));
  for (const [{ info, parts: [part] }, output, agent] of [[byFirst, 'one\n', 'build'], [bySecond, 'two\n', 'plan']]) {
    assert.match(info.id, /^msg_/);
    assert.match(info.parentID, /^msg_/);
    assert.deepEqual([info.role, info.sessionID, info.mode, info.agent, info.cost], ['assistant', session.id, agent, agent, 0]);
    assert.deepEqual(info.path, { cwd: session.directory, root: session.directory });
    assert.ok(info.time.completed >= info.time.created);
    assert.deepEqual([part.type, part.tool, part.messageID, part.state.status, part.state.title], ['tool', 'bash', info.id, 'completed', '']);
    assert.match(part.id, /^prt_/);
    assert.deepEqual([part.state.output, part.state.metadata.output, part.state.metadata.exit], [output, output, 0]);
    assert.ok(part.state.time.end >= part.state.time.start);
  }
  assert.deepEqual([bySecond.info.providerID, bySecond.info.modelID], ['p', 'm']);
  // The session contains all of it in order.
  const messages = data(await t.sdkV2.session.messages({ sessionID: session.id }));
  assert.deepEqual(messages.map(({ info }) => info.role), ['user', 'assistant', 'user', 'assistant']);
  assert.deepEqual([messages[1], messages[3]], [byFirst, bySecond]);
  assert.equal(messages[1].info.parentID, messages[0].info.id);
  const [text] = messages[2].parts;
  assert.deepEqual([text.type, text.text, text.synthetic], ['text', 'The following tool was executed by the user', true]);
  assert.deepEqual(messages[2].info.model, { providerID: 'p', modelID: 'm' });
  const ids = messages.map(({ info }) => info.id);
  assert.deepEqual(ids, [...ids].sort());
  assert.deepEqual(data(await t.sdkV2.session.messages({ sessionID: session.id, limit: 1 })), [bySecond]);
  assert.deepEqual(data(await t.sdkV1.session.message({ path: { id: session.id, messageID: ids[1] } })), byFirst);
  expectError(await t.sdkV2.session.message({ sessionID: session.id, messageID: 'msg_nobody' }), 404);
});

check('shell_keeps_the_model_of_its_session', async (t) => {
  const session = await t.session();
  const call = async (model) => data(await t.sdkV2.session.shell({ sessionID: session.id, agent: 'build', command: 'true', model })).info;
  const { providerID, modelID } = { providerID: 'some', modelID: 'model' };
  await call({ providerID, modelID });
  const next = await call();
  assert.deepEqual([next.providerID, next.modelID], [providerID, modelID]);
  const seen = data(await t.sdkV2.session.get({ sessionID: session.id }));
  assert.deepEqual(seen.model, { id: modelID, providerID });
  assert.ok(seen.time.updated >= session.time.updated);
});

check('shell_events_are_in_order', async (t) => {
  const events = await t.events();
  const session = await t.session();
  const part = await t.shell('echo hello', session);
  await events.waitForType('session.idle', session.id);
  const mine = events.all.filter((event) => JSON.stringify(event).includes(session.id) && event.type !== 'session.created');
  const words = mine.map(({ type, properties: { status, info, part } }) => `${type} ${status?.type ?? info?.role ?? part?.state?.status ?? part?.type ?? ''}`.trim());
  const running = words.filter((word) => word === 'message.part.updated running').length;
  assert.ok(running >= 1 && running <= 3, `${running}`);
  assert.deepEqual(words.filter((word, at) => word !== words[at - 1]), [
    'session.status busy', 'message.updated user', 'message.part.updated text', 'message.updated assistant',
    'message.part.updated running', 'message.updated assistant', 'message.part.updated completed', 'session.status idle', 'session.idle',
  ]);
  const last = mine.filter(({ type }) => type === 'message.part.updated').at(-1).properties;
  assert.deepEqual([last.part, last.sessionID, typeof last.time], [part, session.id, 'number']);
});

// The original does not report the exit code.
check('beyond_shell_reports_the_exit_code', async (t) => {
  for (const [line, exit] of [['exit 3', 3], ['false', 1], ['no-such-program-here', 127], ['true', 0]]) {
    const { state } = await t.shell(line);
    assert.deepEqual([state.status, state.metadata.exit], ['completed', exit], line);
  }
});

// The original responds with 500.
check('beyond_shell_death_by_a_signal_is_a_normal_end', async (t) => {
  const { state } = await t.shell('echo before; kill -9 $$');
  assert.deepEqual([state.status, state.output, state.metadata.exit, state.metadata.signal], ['completed', 'before\n', 137, 'SIGKILL']);
});

// Regression (anomalyco/opencode#23152): the line was expanded once before it ran.
check('beyond_shell_runs_the_line_unchanged', async (t) => {
  const session = await t.session();
  for (const [line, expected] of [
    ['x=5; echo "[$x]"; false; echo $?', '[5]\n1\n'],
    ["echo '$HOME `id`'; echo \"a'b\" 'c\"d' \\\\n", "$HOME `id`\na'b c\"d \\n\n"],
    ['cat <<X\none $0 $#\nX\nfor i in 1 2; do echo $i; done', 'one opencode 0\n1\n2\n'],
    ['echo out; echo err >&2; echo out; echo err >&2', 'out\nerr\nout\nerr\n'],
    ['echo "$TERM"; pwd; cat; echo é😀', `dumb\n${session.directory}\né😀\n`],
  ]) {
    assert.equal((await t.shell(line, session)).state.output, expected, line);
  }
});

// Regression (anomalyco/opencode#47350): the call waited for every process with the pipe, 81 minutes in one case.
check('beyond_shell_does_not_wait_for_background_children', async (t) => {
  const { state } = await t.shell('sleep 300 & echo hi');
  assert.equal(state.output, 'hi\n');
  await t.native('POST', `/v1/processes/${state.metadata.processID}/kill`);
});

check('shell_output_with_invalid_utf8_is_replaced', async (t) => {
  const { state } = await t.shell(`printf 'a\\377b\\342\\202'; printf '\\254 \\360\\237'`);
  assert.equal(state.output, 'a\ufffdb€ \ufffd');
});

check('shell_streams_output_while_the_command_runs', async (t) => {
  const events = await t.events();
  const session = await t.session();
  const gate = new Gate(t.cleanUpSteps);
  const done = t.shell(`echo first; ${gate.waitCommand}; echo second`, session);
  await events.waitFor('the first line', ({ type, properties }) => type === 'message.part.updated' && properties.part.sessionID === session.id
    && properties.part.state?.status === 'running' && properties.part.state.metadata?.output?.includes('first\n'));
  const [, running] = data(await t.sdkV2.session.messages({ sessionID: session.id }));
  assert.deepEqual([running.parts[0].state.status, running.parts[0].state.metadata.output], ['running', 'first\n']);
  gate.release();
  assert.equal((await done).state.output, 'first\nsecond\n');
});

check('shell_runs_one_command_at_a_time_and_reports_busy', async (t) => {
  const session = await t.session();
  const done = t.shell('echo up; sleep 60', session);
  await eventually('busy', async () => data(await t.sdkV2.session.status())[session.id]?.type === 'busy');
  const error = expectError(await t.sdkV2.session.shell({ sessionID: session.id, agent: 'build', command: 'true' }), 409);
  assert.deepEqual(error, { _tag: 'SessionBusyError', sessionID: session.id, message: `Session is busy: ${session.id}` });
  assert.equal(data(await t.sdkV2.session.abort({ sessionID: session.id })), true);
  await done;
  assert.equal(data(await t.sdkV2.session.status())[session.id], undefined, 'idle sessions are omitted');
});

check('shell_refuses_invalid_requests', async (t) => {
  const session = await t.session();
  const call = (body) => t.sdkV2.session.shell({ sessionID: session.id, ...body });
  assert.equal(expectError(await call({ command: 'true' }), 400).name, 'BadRequest');
  assert.equal(expectError(await call({ agent: 'build' }), 400).data.kind, 'Payload');
  assert.equal(expectError(await call({ agent: 'build', command: 'true', messageID: 'nonsense' }), 400).name, 'BadRequest');
  assert.equal(expectError(await t.sdkV2.session.shell({ sessionID: 'ses_unknown', agent: 'a', command: 'true' }), 404).name, 'NotFoundError');
  const lost = data(await t.sdkV2With({ directory: '/no/such/directory' }).session.create());
  t.cleanUpSteps.push(() => t.sdkV2.session.delete({ sessionID: lost.id }));
  assert.match(expectError(await t.sdkV2.session.shell({ sessionID: lost.id, agent: 'a', command: 'true' }), 400).data.message, /does not exist/);
  const [, message] = data(await t.sdkV2.session.messages({ sessionID: lost.id }));
  assert.match(message.parts[0].state.error, /does not exist/);
  assert.deepEqual(data(await t.sdkV2.session.status()), {}, 'no session is busy');
  const mine = data(await call({ agent: 'build', command: 'true', messageID: 'msg_mine' }));
  assert.equal(mine.info.parentID, 'msg_mine');
  expectError(await call({ agent: 'build', command: 'true', messageID: 'msg_mine' }), 400);
});

// The limit of a response: 2 MiB as JSON, less the end that the metadata repeats.
const isEndOf = (all, output) => all.endsWith(output) && output.length > 1_700_000 && JSON.stringify(output).length <= 2 << 20;

check('shell_responses_are_bounded', async (t) => {
  const session = await t.session();
  for (let n = 0; n < 3; n += 1) await t.shell(`head -c 1000000 /dev/zero | tr '\\0' '\\1'; echo ${n}`, session);
  const text = await (await fetch(`${t.url}/session/${session.id}/message`)).text();
  // The parts that are kept of older events, in addition to the output.
  assert.ok(text.length > 1_900_000 && text.length < (2 << 20) + 300_000, `${text.length}`);
  const outputs = JSON.parse(text).flatMap(({ parts }) => parts).filter(({ type }) => type === 'tool').map(({ state }) => state);
  assert.deepEqual(outputs.map(({ output }) => output.at(-2)), ['0', '1', '2']);
  assert.ok(outputs.every(({ metadata }) => metadata.truncated) && outputs[2].output.length > 300_000 && outputs[0].output.length < 9000);
});

// The original wrote 376 MB to its database and 48 MB of events for 5 MB, and took more than 20 s.
check('beyond_shell_output_of_20_megabytes_needs_few_events', async (t) => {
  const events = await t.events();
  const session = await t.session();
  const started = Date.now();
  const { state } = await t.shell(printNumbers(20_000_000), session);
  const seconds = (Date.now() - started) / 1000;
  assert.ok(isEndOf(numbers(20_000_000).toString('latin1'), state.output), `${state.output.length}`);
  assert.equal(state.metadata.truncated, true);
  await events.waitForType('session.idle', session.id);
  const parts = events.withType('message.part.updated', session.id);
  const bytes = parts.reduce((sum, event) => sum + JSON.stringify(event).length, 0);
  assert.ok(parts.length <= 10 * Math.max(seconds, 1), `${parts.length} events in ${seconds} s`);
  assert.ok(bytes <= 200_000 + 4 * 40_000 * seconds, `${bytes} bytes of events in ${seconds} s`);
  console.log(`# 20 MB in ${seconds.toFixed(1)} s, ${parts.length} events about the part, ${bytes} bytes`);
  const [, kept] = data(await t.sdkV2.session.messages({ sessionID: session.id }));
  assert.ok(kept.parts[0].state.output === state.output, 'and the session contains it');
});

check('shell_sends_at_most_four_events_per_second', async (t) => {
  const events = await t.events();
  const session = await t.session();
  const gate = new Gate(t.cleanUpSteps);
  const done = t.shell(`i=0; while :; do echo line $i; i=$((i+1)); sleep 0.01; done & ${gate.waitCommand}; kill $!`, session);
  const eventCount = () => events.withType('message.part.updated', session.id).filter(({ properties }) => properties.part.state?.status === 'running').length;
  await events.waitFor('some of them', () => eventCount() >= 8);
  gate.release();
  const { state } = await done;
  await events.waitForType('session.idle', session.id);
  // The times are the server's, so a slow machine only increases the number of seconds.
  const seconds = (state.time.end - state.time.start) / 1000;
  assert.ok(eventCount() <= 4 * seconds + 2, `${eventCount()} in ${seconds} s`);
});

check('shell_output_over_the_limit_keeps_the_end_and_reports_the_loss', async (t) => {
  const { state } = await t.shell(`${printNumbers(40_000_000)}; echo; echo the end`);
  assert.ok(state.metadata.truncated && state.output.endsWith('\nthe end\n'));
  assert.ok(state.output.length > 1_700_000);
});

check('shell_command_continues_without_its_client', async (t) => {
  const session = await t.session();
  const gate = new Gate(t.cleanUpSteps);
  const abort = new AbortController();
  const call = t.sdkV2.session.shell({ sessionID: session.id, agent: 'build', command: `echo started; ${gate.waitCommand}; echo done` }, { signal: abort.signal });
  await eventually('it runs', async () => data(await t.sdkV2.session.messages({ sessionID: session.id }))[1]?.parts[0].state.metadata?.output);
  abort.abort();
  await Promise.resolve(call).catch(() => {});
  gate.release();
  const ended = await eventually('its exit', async () => {
    const [, { parts: [part] }] = data(await t.sdkV2.session.messages({ sessionID: session.id }));
    return part.state.status === 'completed' && part;
  });
  assert.equal(ended.state.output, 'started\ndone\n');
});

check('shell_output_is_partly_kept_after_the_process_record_is_deleted', async (t) => {
  const session = await t.session();
  const { state } = await t.shell(`${printNumbers(100_000)}; echo; echo the end`, session);
  await t.native('DELETE', `/v1/processes/${state.metadata.processID}?force=true`);
  const [, { parts: [part] }] = data(await t.sdkV2.session.messages({ sessionID: session.id }));
  assert.ok(part.state.output.endsWith('the end\n') && part.state.output.length >= 8_000 && part.state.output.length < 9_000);
  assert.deepEqual([part.state.metadata.truncated, part.state.metadata.exit], [true, 0]);
});
