// Streams of events.

import assert from 'node:assert/strict';
import { check } from '../../_shared/frame.mjs';
import { data } from '../support.mjs';

check('events_tell_the_life_of_a_terminal_to_both_clients', async (t) => {
  const byFirst = (options) => t.first.event.subscribe(options);
  const bySecond = (options) => t.second.event.subscribe(undefined, options);
  for (const subscribe of [byFirst, bySecond]) {
    const events = await t.events(subscribe);
    const pty = await t.pty('head -n 1; exit 3');
    const created = await events.typed('pty.created', pty.id);
    assert.deepEqual(created.properties.info, pty);
    assert.match(created.id, /^evt_/);
    data(await t.second.pty.update({ ptyID: pty.id, title: 'told' }));
    assert.equal((await events.typed('pty.updated', pty.id)).properties.info.title, 'told');
    (await t.connect(pty.id)).send('\n');
    assert.deepEqual((await events.typed('pty.exited', pty.id)).properties, { id: pty.id, exitCode: 3 });
    data(await t.second.v2.pty.remove({ ptyID: pty.id }));
    assert.deepEqual((await events.typed('pty.deleted', pty.id)).properties, { id: pty.id });
  }
});

check('events_of_every_update_also_of_one_that_changes_nothing', async (t) => {
  const events = await t.events();
  const pty = await t.pty('exec cat');
  for (let n = 0; n < 3; n += 1) data(await t.second.pty.update({ ptyID: pty.id, size: { rows: 30, cols: 90 } }));
  await events.until('three', () => events.of('pty.updated', pty.id).length >= 3);
  await (await t.connect(pty.id)).ready();
  data(await t.second.pty.update({ ptyID: pty.id, title: 'last' }));
  await events.until('the last', (event) => event.properties?.info?.title === 'last');
  assert.equal(events.of('pty.updated', pty.id).length, 4, 'one for each');
});

check('events_of_a_deleted_terminal_are_only_that', async (t) => {
  const events = await t.events();
  const pty = await t.pty('exec cat');
  data(await t.second.pty.remove({ ptyID: pty.id }));
  await events.typed('pty.deleted', pty.id);
  // What comes behind it has been seen, too.
  const other = await t.pty('exit 0');
  await events.typed('pty.exited', other.id);
  assert.deepEqual([events.of('pty.exited', pty.id).length, events.of('pty.deleted', pty.id).length], [0, 1]);
});

// There an event right after the first one was lost in 2 of 9 runs.
check('global_events_miss_nothing_after_the_first_word', async (t) => {
  for (let round = 0; round < 5; round += 1) {
    const events = await t.events((options) => t.second.global.event(options));
    const pty = await t.made(t.secondWith({ directory: '/usr' }), { command: 'cat' });
    const created = await events.until('created', (event) => event.payload?.properties?.info?.id === pty.id);
    assert.deepEqual([created.directory, created.payload.type, created.payload.properties.info], ['/usr', 'pty.created', pty]);
    const [connected] = events.all;
    assert.deepEqual([connected.directory, connected.payload.type, connected.payload.properties], [undefined, 'server.connected', {}]);
  }
});

check('events_of_a_folder_are_for_those_who_ask_for_it', async (t) => {
  const [usr, etc] = [t.secondWith({ directory: '/usr' }), t.secondWith({ directory: '/etc' })];
  const inUsr = await t.events((options) => usr.event.subscribe(undefined, options));
  const inEtc = await t.events((options) => etc.event.subscribe(undefined, options));
  const one = await t.made(usr, { command: 'cat' });
  const two = await t.made(etc, { command: 'cat' });
  await inUsr.typed('pty.created', one.id);
  await inEtc.typed('pty.created', two.id);
  assert.equal(inEtc.of('pty.created', one.id).length, 0);
});

check('api_events_have_data_and_location', async (t) => {
  const events = await t.events((options) => t.second.v2.event.subscribe(options));
  const pty = await t.made(t.secondWith({ directory: '/usr' }), { command: 'cat' });
  const created = await events.typed('pty.created', pty.id);
  assert.deepEqual([created.data.info, created.location], [pty, { directory: '/usr' }]);
});

check('events_have_the_headers_of_a_stream_and_a_heartbeat', async (t) => {
  const abort = new AbortController();
  t.atEnd.push(() => abort.abort());
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

// Without an id in its first word, a client that has seen nothing else could not tell where to go on.
check('events_go_on_after_the_death_of_the_server_also_for_who_has_seen_none', async (t) => {
  const again = { sseDefaultRetryDelay: 1000 };
  const streams = [
    await t.events((options) => t.second.event.subscribe(undefined, { ...options, ...again })),
    await t.events((options) => t.second.global.event({ ...options, ...again })),
    await t.events((options) => t.second.v2.event.subscribe({ ...options, ...again })),
  ];
  await t.killServer();
  // Before they come back.
  const pty = await t.pty('exit 6');
  const created = (event) => (event.payload ?? event).type === 'pty.created' && ((event.payload ?? event).properties ?? event.data).info.id === pty.id;
  for (const events of streams) {
    await events.until('what happened meanwhile', created);
    assert.equal(events.all.filter(created).length, 1);
  }
});

check('events_begin_with_the_id_of_their_place', async (t) => {
  for (const path of ['/event', '/global/event', '/api/event']) {
    const abort = new AbortController();
    t.atEnd.push(() => abort.abort());
    const { value } = await (await fetch(t.url + path, { signal: abort.signal })).body.pipeThrough(new TextDecoderStream()).getReader().read();
    assert.match(value, /^id: [0-9a-f]+-\d+\ndata: .*"server\.connected"/, path);
  }
});

// It came back for ever with an id whose events were gone.
check('events_from_a_place_that_is_gone_break_off_with_a_new_one', async (t) => {
  const read = async (headers) => {
    const abort = new AbortController();
    t.atEnd.push(() => abort.abort());
    const reader = (await fetch(`${t.url}/event`, { headers, signal: abort.signal })).body.pipeThrough(new TextDecoderStream()).getReader();
    return { reader, first: (await reader.read()).value };
  };
  const id = (text) => text.match(/^id: (\S+)$/m)[1];
  const { first } = await read({});
  const { reader, first: second } = await read({ 'last-event-id': id(first).replace(/\d+$/, '999999999999') });
  let text = second;
  await assert.rejects(async () => { for (;;) text += (await reader.read()).value; });
  const [, place] = text.split('\n\n');
  assert.match(place, /^id: \S+$/);
  const { reader: third } = await read({ 'last-event-id': id(place) });
  const pty = await t.pty('exec cat');
  for (let seen = ''; !seen.includes(pty.id);) seen += (await third.read()).value;
});

// The SDK comes back after a broken stream with the id of the last event, and misses none of the terminals'.
check('events_go_on_after_the_death_of_the_server', async (t) => {
  const events = await t.events((options) => t.second.event.subscribe(undefined, { ...options, sseDefaultRetryDelay: 50 }));
  const before = await t.pty('exec cat');
  await events.typed('pty.created', before.id);
  await t.killServer();
  const after = await t.pty('exit 6');
  assert.equal((await events.typed('pty.exited', after.id)).properties.exitCode, 6);
  assert.equal(events.of('pty.created', after.id).length, 1, 'what happened meanwhile is told, once');
});
