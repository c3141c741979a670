// Sessions as such.

import assert from 'node:assert/strict';
import { check } from '../../_shared/frame.mjs';
import { data, refused } from '../support.mjs';

check('session_create_get_list_update_delete_in_both_clients', async (t) => {
  const events = await t.events();
  const session = data(await t.first.session.create({ body: { title: 'by the first' } }));
  assert.match(session.id, /^ses_/);
  assert.deepEqual([session.title, session.projectID, session.cost], ['by the first', 'global', 0]);
  // Two looks at a clock, which may have gone on in between.
  assert.ok(session.time.created > 0 && session.time.updated >= session.time.created);
  for (const key of ['slug', 'directory', 'version']) assert.equal(typeof session[key], 'string');
  assert.deepEqual((await events.typed('session.created', session.id)).properties.info, session);
  assert.deepEqual(data(await t.first.session.get({ path: { id: session.id } })), session);
  assert.deepEqual(data(await t.second.session.get({ sessionID: session.id })), session);
  assert.ok(data(await t.second.session.list()).some(({ id }) => id === session.id));
  const updated = data(await t.second.session.update({ sessionID: session.id, title: 'renamed' }));
  assert.deepEqual([updated.title, updated.id], ['renamed', session.id]);
  await events.typed('session.updated', session.id);
  assert.equal(data(await t.second.session.delete({ sessionID: session.id })), true);
  await events.typed('session.deleted', session.id);
  assert.deepEqual(refused(await t.first.session.get({ path: { id: session.id } }), 404), { name: 'NotFoundError', data: { message: `Session not found: ${session.id}` } });
});

check('session_create_without_a_word', async (t) => {
  const session = data(await t.second.session.create());
  t.atEnd.push(() => t.second.session.delete({ sessionID: session.id }));
  assert.match(session.title, /./);
  assert.deepEqual(data(await t.second.session.messages({ sessionID: session.id })), []);
  assert.deepEqual(data(await t.second.session.todo({ sessionID: session.id })), []);
});

check('session_children_metadata_and_filters', async (t) => {
  const parent = await t.session({ title: 'the parent', metadata: { a: { b: 1 } } });
  assert.deepEqual(parent.metadata, { a: { b: 1 } });
  const child = await t.session({ parentID: parent.id, title: 'the child' });
  assert.deepEqual(data(await t.second.session.children({ sessionID: parent.id })).map(({ id }) => id), [child.id]);
  const roots = data(await t.second.session.list({ roots: true, search: 'PARENT', limit: 1 }));
  assert.deepEqual(roots.map(({ id }) => id), [parent.id]);
  refused(await t.second.session.create({ parentID: 'ses_nobody' }), 404);
});

check('session_of_another_folder_is_not_found', async (t) => {
  const usr = t.secondWith({ directory: '/usr' });
  const session = data(await usr.session.create());
  t.atEnd.push(() => t.second.session.delete({ sessionID: session.id }));
  assert.equal(session.directory, '/usr');
  refused(await t.secondWith({ directory: '/etc' }).session.get({ sessionID: session.id }), 404);
  assert.equal(data(await t.second.session.get({ sessionID: session.id })).id, session.id);
});

check('session_ids_sort_newest_first', async (t) => {
  const [older, newer] = [await t.session(), await t.session()];
  assert.ok(newer.id < older.id);
});

check('session_refusals', async (t) => {
  assert.equal(refused(await t.second.session.get({ sessionID: 'nobody' }), 400).data.kind, 'Params');
  for (const call of [t.second.session.get, t.second.session.messages, t.second.session.abort]) {
    assert.equal(refused(await call.call(t.second.session, { sessionID: 'ses_nobody' }), 404).name, 'NotFoundError');
  }
  refused(await t.second.session.create({ title: 5 }), 400);
  const odd = await t.raw('GET', '/session?limit=many');
  assert.deepEqual([odd.status, odd.json.name, odd.json.data.kind], [400, 'BadRequest', 'Query']);
  refused(await t.second.session.create({ metadata: { big: 'x'.repeat(100_000) } }), 400);
});
