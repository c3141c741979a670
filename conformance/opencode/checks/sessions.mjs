// Session records.

import assert from 'node:assert/strict';
import { check } from '../../_shared/runner.mjs';
import { data, expectError } from '../support.mjs';

check('session_is_created_read_listed_updated_and_deleted_in_both_clients', async (t) => {
  const events = await t.events();
  const session = data(await t.sdkV1.session.create({ body: { title: 'by the first' } }));
  assert.match(session.id, /^ses_/);
  assert.deepEqual([session.title, session.projectID, session.cost], ['by the first', 'global', 0]);
  // The clock is read twice and may have advanced in between.
  assert.ok(session.time.created > 0 && session.time.updated >= session.time.created);
  for (const key of ['slug', 'directory', 'version']) assert.equal(typeof session[key], 'string');
  assert.deepEqual((await events.waitForType('session.created', session.id)).properties.info, session);
  assert.deepEqual(data(await t.sdkV1.session.get({ path: { id: session.id } })), session);
  assert.deepEqual(data(await t.sdkV2.session.get({ sessionID: session.id })), session);
  assert.ok(data(await t.sdkV2.session.list()).some(({ id }) => id === session.id));
  const updated = data(await t.sdkV2.session.update({ sessionID: session.id, title: 'renamed' }));
  assert.deepEqual([updated.title, updated.id], ['renamed', session.id]);
  await events.waitForType('session.updated', session.id);
  assert.equal(data(await t.sdkV2.session.delete({ sessionID: session.id })), true);
  await events.waitForType('session.deleted', session.id);
  assert.deepEqual(expectError(await t.sdkV1.session.get({ path: { id: session.id } }), 404), { name: 'NotFoundError', data: { message: `Session not found: ${session.id}` } });
});

check('session_create_needs_no_options', async (t) => {
  const session = data(await t.sdkV2.session.create());
  t.cleanUpSteps.push(() => t.sdkV2.session.delete({ sessionID: session.id }));
  assert.match(session.title, /./);
  assert.deepEqual(data(await t.sdkV2.session.messages({ sessionID: session.id })), []);
  assert.deepEqual(data(await t.sdkV2.session.todo({ sessionID: session.id })), []);
});

check('session_has_children_metadata_and_filters', async (t) => {
  const parent = await t.session({ title: 'the parent', metadata: { a: { b: 1 } } });
  assert.deepEqual(parent.metadata, { a: { b: 1 } });
  const child = await t.session({ parentID: parent.id, title: 'the child' });
  assert.deepEqual(data(await t.sdkV2.session.children({ sessionID: parent.id })).map(({ id }) => id), [child.id]);
  const roots = data(await t.sdkV2.session.list({ roots: true, search: 'PARENT', limit: 1 }));
  assert.deepEqual(roots.map(({ id }) => id), [parent.id]);
  expectError(await t.sdkV2.session.create({ parentID: 'ses_unknown' }), 404);
});

check('session_of_another_directory_is_not_found', async (t) => {
  const usr = t.sdkV2With({ directory: '/usr' });
  const session = data(await usr.session.create());
  t.cleanUpSteps.push(() => t.sdkV2.session.delete({ sessionID: session.id }));
  assert.equal(session.directory, '/usr');
  expectError(await t.sdkV2With({ directory: '/etc' }).session.get({ sessionID: session.id }), 404);
  assert.equal(data(await t.sdkV2.session.get({ sessionID: session.id })).id, session.id);
});

check('session_ids_sort_newest_first', async (t) => {
  const [older, newer] = [await t.session(), await t.session()];
  assert.ok(newer.id < older.id);
});

check('session_refuses_invalid_requests', async (t) => {
  assert.equal(expectError(await t.sdkV2.session.get({ sessionID: 'unknown' }), 400).data.kind, 'Params');
  for (const call of [t.sdkV2.session.get, t.sdkV2.session.messages, t.sdkV2.session.abort]) {
    assert.equal(expectError(await call.call(t.sdkV2.session, { sessionID: 'ses_unknown' }), 404).name, 'NotFoundError');
  }
  expectError(await t.sdkV2.session.create({ title: 5 }), 400);
  const odd = await t.raw('GET', '/session?limit=many');
  assert.deepEqual([odd.status, odd.json.name, odd.json.data.kind], [400, 'BadRequest', 'Query']);
  expectError(await t.sdkV2.session.create({ metadata: { big: 'x'.repeat(100_000) } }), 400);
});
