// Event streams.

import assert from 'node:assert/strict';
import { check } from '../../_shared/runner.mjs';
import { data } from '../support.mjs';

check('events_report_the_life_of_a_terminal_to_both_clients', async (t) => {
  const byFirst = (options) => t.sdkV1.event.subscribe(options);
  const bySecond = (options) => t.sdkV2.event.subscribe(undefined, options);
  for (const subscribe of [byFirst, bySecond]) {
    const events = await t.events(subscribe);
    const pty = await t.pty('head -n 1; exit 3');
    const created = await events.waitForType('pty.created', pty.id);
    assert.deepEqual(created.properties.info, pty);
    assert.match(created.id, /^evt_/);
    data(await t.sdkV2.pty.update({ ptyID: pty.id, title: 'renamed' }));
    assert.equal((await events.waitForType('pty.updated', pty.id)).properties.info.title, 'renamed');
    (await t.connect(pty.id)).send('\n');
    assert.deepEqual((await events.waitForType('pty.exited', pty.id)).properties, { id: pty.id, exitCode: 3 });
    data(await t.sdkV2.v2.pty.remove({ ptyID: pty.id }));
    assert.deepEqual((await events.waitForType('pty.deleted', pty.id)).properties, { id: pty.id });
  }
});

check('events_report_every_update_even_without_a_change', async (t) => {
  const events = await t.events();
  const pty = await t.pty('exec cat');
  for (let n = 0; n < 3; n += 1) data(await t.sdkV2.pty.update({ ptyID: pty.id, size: { rows: 30, cols: 90 } }));
  await events.waitFor('three', () => events.withType('pty.updated', pty.id).length >= 3);
  await (await t.connect(pty.id)).ready();
  data(await t.sdkV2.pty.update({ ptyID: pty.id, title: 'last' }));
  await events.waitFor('the last', (event) => event.properties?.info?.title === 'last');
  assert.equal(events.withType('pty.updated', pty.id).length, 4, 'one event per update');
});

check('events_of_a_deleted_terminal_report_the_delete_only', async (t) => {
  const events = await t.events();
  const pty = await t.pty('exec cat');
  data(await t.sdkV2.pty.remove({ ptyID: pty.id }));
  await events.waitForType('pty.deleted', pty.id);
  // Events after it were received too.
  const other = await t.pty('exit 0');
  await events.waitForType('pty.exited', other.id);
  assert.deepEqual([events.withType('pty.exited', pty.id).length, events.withType('pty.deleted', pty.id).length], [0, 1]);
});

// Regression: the original lost an event right after the first one in 2 of 9 runs.
check('global_events_miss_nothing_after_the_first_event', async (t) => {
  for (let round = 0; round < 5; round += 1) {
    const events = await t.events((options) => t.sdkV2.global.event(options));
    const pty = await t.createPty(t.sdkV2With({ directory: '/usr' }), { command: 'cat' });
    const created = await events.waitFor('created', (event) => event.payload?.properties?.info?.id === pty.id);
    assert.deepEqual([created.directory, created.payload.type, created.payload.properties.info], ['/usr', 'pty.created', pty]);
    const [connected] = events.all;
    assert.deepEqual([connected.directory, connected.payload.type, connected.payload.properties], [undefined, 'server.connected', {}]);
  }
});

check('events_can_be_filtered_by_directory', async (t) => {
  const [usr, etc] = [t.sdkV2With({ directory: '/usr' }), t.sdkV2With({ directory: '/etc' })];
  const inUsr = await t.events((options) => usr.event.subscribe(undefined, options));
  const inEtc = await t.events((options) => etc.event.subscribe(undefined, options));
  const one = await t.createPty(usr, { command: 'cat' });
  const two = await t.createPty(etc, { command: 'cat' });
  await inUsr.waitForType('pty.created', one.id);
  await inEtc.waitForType('pty.created', two.id);
  assert.equal(inEtc.withType('pty.created', one.id).length, 0);
});

check('api_events_have_data_and_location', async (t) => {
  const events = await t.events((options) => t.sdkV2.v2.event.subscribe(options));
  const pty = await t.createPty(t.sdkV2With({ directory: '/usr' }), { command: 'cat' });
  const created = await events.waitForType('pty.created', pty.id);
  assert.deepEqual([created.data.info, created.location], [pty, { directory: '/usr' }]);
});

check('events_have_stream_headers_and_a_heartbeat', async (t) => {
  const abort = new AbortController();
  t.cleanUpSteps.push(() => abort.abort());
  const response = await fetch(`${t.url}/event`, { signal: abort.signal });
  for (const [name, value] of [['content-type', 'text/event-stream'], ['cache-control', 'no-cache, no-transform'], ['x-accel-buffering', 'no'], ['x-content-type-options', 'nosniff']]) {
    assert.equal(response.headers.get(name), value);
  }
  let text = '';
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    text += piece;
    if (text.includes('server.heartbeat')) break;
  }
  for (const frame of text.trimEnd().split('\n\n')) assert.match(frame, /^(id: \S+\n)?data: \{.*\}$/);
});

// A client that has received only the first event needs its id to resume.
check('events_resume_after_a_server_kill_for_a_client_without_events', async (t) => {
  const again = { sseDefaultRetryDelay: 1000 };
  const streams = [
    await t.events((options) => t.sdkV2.event.subscribe(undefined, { ...options, ...again })),
    await t.events((options) => t.sdkV2.global.event({ ...options, ...again })),
    await t.events((options) => t.sdkV2.v2.event.subscribe({ ...options, ...again })),
  ];
  await t.killServer();
  // Before the clients reconnect.
  const pty = await t.pty('exit 6');
  const created = (event) => (event.payload ?? event).type === 'pty.created' && ((event.payload ?? event).properties ?? event.data).info.id === pty.id;
  for (const events of streams) {
    await events.waitFor('the missed event', created);
    assert.equal(events.all.filter(created).length, 1);
  }
});

check('events_start_with_the_id_of_their_position', async (t) => {
  for (const path of ['/event', '/global/event', '/api/event']) {
    const abort = new AbortController();
    t.cleanUpSteps.push(() => abort.abort());
    const { value } = await (await fetch(t.url + path, { signal: abort.signal })).body.pipeThrough(new TextDecoderStream()).getReader().read();
    assert.match(value, /^id: [0-9a-f]+-\d+\ndata: .*"server\.connected"/, path);
  }
});

// Regression: a client reconnected forever with an id whose events were lost.
check('events_from_a_lost_position_end_with_a_new_position', async (t) => {
  const read = async (headers) => {
    const abort = new AbortController();
    t.cleanUpSteps.push(() => abort.abort());
    const reader = (await fetch(`${t.url}/event`, { headers, signal: abort.signal })).body.pipeThrough(new TextDecoderStream()).getReader();
    return { reader, first: (await reader.read()).value };
  };
  const id = (text) => text.match(/^id: (\S+)$/m)[1];
  const { first } = await read({});
  const { reader, first: second } = await read({ 'last-event-id': id(first).replace(/\d+$/, '999999999999') });
  let text = second;
  await assert.rejects(async () => { for (;;) text += (await reader.read()).value; });
  const [, position] = text.split('\n\n');
  assert.match(position, /^id: \S+$/);
  const { reader: third } = await read({ 'last-event-id': id(position) });
  const pty = await t.pty('exec cat');
  for (let seen = ''; !seen.includes(pty.id);) seen += (await third.read()).value;
});

// After a broken stream the SDK reconnects with the id of the last event and misses no terminal event.
check('events_resume_after_a_server_kill', async (t) => {
  const events = await t.events((options) => t.sdkV2.event.subscribe(undefined, { ...options, sseDefaultRetryDelay: 50 }));
  const before = await t.pty('exec cat');
  await events.waitForType('pty.created', before.id);
  await t.killServer();
  const after = await t.pty('exit 6');
  assert.equal((await events.waitForType('pty.exited', after.id)).properties.exitCode, 6);
  assert.equal(events.withType('pty.created', after.id).length, 1, 'the missed event arrives once');
});
