// The newer API, below /api.

import assert from 'node:assert/strict';
import { eventually } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { data, nativeId, refused } from '../support.mjs';

check('api_pty_create_list_get_update_remove', async (t) => {
  const { pty } = t.second.v2;
  const made = data(await pty.create({ command: 'cat', title: 'below', location: { directory: '/usr' } }));
  t.atEnd.push(() => t.native('DELETE', `/v1/processes/${nativeId(made.data.id)}?force=true`));
  assert.deepEqual(made.location, { directory: '/usr', project: { id: 'global', directory: '/usr' } });
  const { id } = made.data;
  assert.deepEqual([made.data.title, made.data.cwd, made.data.status], ['below', '/usr', 'running']);
  assert.deepEqual(data(await pty.get({ ptyID: id, location: { directory: '/usr' } })).data, made.data);
  assert.ok(data(await pty.list({ location: { directory: '/usr' } })).data.some((one) => one.id === id));
  assert.ok(!data(await pty.list({ location: { directory: '/etc' } })).data.some((one) => one.id === id));
  assert.equal(data(await pty.update({ ptyID: id, title: 'other', size: { rows: 9, cols: 9 } })).data.title, 'other');
  const removed = await pty.remove({ ptyID: id });
  assert.equal(removed.response.status, 204);
  refused(await pty.get({ ptyID: id }), 404);
});

check('api_and_first_api_show_the_same_terminals', async (t) => {
  const pty = await t.pty('exec cat');
  assert.deepEqual(data(await t.second.v2.pty.get({ ptyID: pty.id })).data, pty);
});

check('api_keeps_those_that_exited_with_their_code', async (t) => {
  const pty = await t.pty('exit 7');
  await t.untilExited(pty);
  const seen = data(await t.second.v2.pty.get({ ptyID: pty.id })).data;
  assert.deepEqual([seen.status, seen.exitCode, seen.pid], ['exited', 7, pty.pid]);
  assert.ok(data(await t.second.v2.pty.list()).data.some(({ id }) => id === pty.id));
  assert.equal((await t.second.v2.pty.remove({ ptyID: pty.id })).response.status, 204);
  await eventually('it is gone', async () => (await t.second.v2.pty.get({ ptyID: pty.id })).response.status === 404);
});

check('api_lists_the_25_that_ended_last', async (t) => {
  const made = await Promise.all([...Array(28)].map(() => t.pty('exit 0')));
  await Promise.all(made.map((pty) => t.untilExited(pty)));
  const ended = data(await t.second.v2.pty.list()).data.filter(({ status }) => status === 'exited');
  assert.equal(ended.length, 25);
});

// There: 1.
check('beyond_death_by_a_signal_is_told', async (t) => {
  for (const [signal, code] of [['KILL', 137], ['TERM', 143], ['SEGV', 139]]) {
    const pty = await t.pty(`kill -${signal} $$; sleep 60`);
    await t.untilExited(pty);
    assert.equal(data(await t.second.v2.pty.get({ ptyID: pty.id })).data.exitCode, code, signal);
  }
});

check('api_connects_and_gives_tickets', async (t) => {
  const pty = await t.pty('echo hi; exec cat');
  const { data: ticket } = data(await t.second.v2.pty.connectToken({ ptyID: pty.id }, { headers: { 'x-opencode-ticket': '1' } }));
  assert.equal(ticket.expires_in, 60);
  await (await t.connect(pty.id, { surface: '/api', query: { ticket: ticket.ticket } })).until('hi');
  assert.equal(refused(await t.second.v2.pty.connectToken({ ptyID: pty.id }), 403)._tag, 'ForbiddenError');
});

check('api_errors_are_in_its_own_words', async (t) => {
  const { pty } = t.second.v2;
  const error = refused(await pty.update({ ptyID: (await t.pty('exec cat')).id, size: { rows: 0, cols: 1 } }), 400);
  assert.deepEqual([error._tag, error.kind, error.field], ['InvalidRequestError', 'Payload', 'size.rows']);
  assert.equal(refused(await pty.get({ ptyID: 'pty_nobody' }), 404)._tag, 'PtyNotFoundError');
  assert.equal(refused(await pty.create({ command: '/no/such' }), 400)._tag, 'InvalidRequestError');
});

check('api_location_is_what_was_asked_for', async (t) => {
  const { json } = await t.raw('GET', '/api/location?location%5Bdirectory%5D=/usr&location%5Bworkspace%5D=wrk_1');
  assert.deepEqual(json, { directory: '/usr', workspaceID: 'wrk_1', project: { id: 'global', directory: '/usr' } });
});
