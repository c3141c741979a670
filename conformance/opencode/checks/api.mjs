// The newer API, below /api.

import assert from 'node:assert/strict';
import { eventually } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { data, nativeId, expectError } from '../support.mjs';

check('api_pty_is_created_listed_read_updated_and_removed', async (t) => {
  const { pty } = t.sdkV2.v2;
  const created = data(await pty.create({ command: 'cat', title: 'below', location: { directory: '/usr' } }));
  t.cleanUpSteps.push(() => t.native('DELETE', `/v1/processes/${nativeId(created.data.id)}?force=true`));
  assert.deepEqual(created.location, { directory: '/usr', project: { id: 'global', directory: '/usr' } });
  const { id } = created.data;
  assert.deepEqual([created.data.title, created.data.cwd, created.data.status], ['below', '/usr', 'running']);
  assert.deepEqual(data(await pty.get({ ptyID: id, location: { directory: '/usr' } })).data, created.data);
  assert.ok(data(await pty.list({ location: { directory: '/usr' } })).data.some((one) => one.id === id));
  assert.ok(!data(await pty.list({ location: { directory: '/etc' } })).data.some((one) => one.id === id));
  assert.equal(data(await pty.update({ ptyID: id, title: 'other', size: { rows: 9, cols: 9 } })).data.title, 'other');
  const removed = await pty.remove({ ptyID: id });
  assert.equal(removed.response.status, 204);
  expectError(await pty.get({ ptyID: id }), 404);
});

check('api_and_v1_show_the_same_terminals', async (t) => {
  const pty = await t.pty('exec cat');
  assert.deepEqual(data(await t.sdkV2.v2.pty.get({ ptyID: pty.id })).data, pty);
});

check('api_keeps_exited_terminals_with_their_exit_code', async (t) => {
  const pty = await t.pty('exit 7');
  await t.waitForExit(pty);
  const seen = data(await t.sdkV2.v2.pty.get({ ptyID: pty.id })).data;
  assert.deepEqual([seen.status, seen.exitCode, seen.pid], ['exited', 7, pty.pid]);
  assert.ok(data(await t.sdkV2.v2.pty.list()).data.some(({ id }) => id === pty.id));
  assert.equal((await t.sdkV2.v2.pty.remove({ ptyID: pty.id })).response.status, 204);
  await eventually('it no longer exists', async () => (await t.sdkV2.v2.pty.get({ ptyID: pty.id })).response.status === 404);
});

check('api_lists_the_25_most_recently_exited_terminals', async (t) => {
  const created = await Promise.all([...Array(28)].map(() => t.pty('exit 0')));
  await Promise.all(created.map((pty) => t.waitForExit(pty)));
  const ended = data(await t.sdkV2.v2.pty.list()).data.filter(({ status }) => status === 'exited');
  assert.equal(ended.length, 25);
});

// The original reports exit code 1.
check('beyond_death_by_a_signal_is_reported', async (t) => {
  for (const [signal, code] of [['KILL', 137], ['TERM', 143], ['SEGV', 139]]) {
    const pty = await t.pty(`kill -${signal} $$; sleep 60`);
    await t.waitForExit(pty);
    assert.equal(data(await t.sdkV2.v2.pty.get({ ptyID: pty.id })).data.exitCode, code, signal);
  }
});

check('api_connects_and_issues_tickets', async (t) => {
  const pty = await t.pty('echo hi; exec cat');
  const { data: ticket } = data(await t.sdkV2.v2.pty.connectToken({ ptyID: pty.id }, { headers: { 'x-opencode-ticket': '1' } }));
  assert.equal(ticket.expires_in, 60);
  await (await t.connect(pty.id, { surface: '/api', query: { ticket: ticket.ticket } })).waitFor('hi');
  assert.equal(expectError(await t.sdkV2.v2.pty.connectToken({ ptyID: pty.id }), 403)._tag, 'ForbiddenError');
});

check('api_errors_have_the_platforms_format', async (t) => {
  const { pty } = t.sdkV2.v2;
  const error = expectError(await pty.update({ ptyID: (await t.pty('exec cat')).id, size: { rows: 0, cols: 1 } }), 400);
  assert.deepEqual([error._tag, error.kind, error.field], ['InvalidRequestError', 'Payload', 'size.rows']);
  assert.equal(expectError(await pty.get({ ptyID: 'pty_unknown' }), 404)._tag, 'PtyNotFoundError');
  assert.equal(expectError(await pty.create({ command: '/no/such' }), 400)._tag, 'InvalidRequestError');
});

check('api_location_is_the_requested_directory', async (t) => {
  const { json } = await t.raw('GET', '/api/location?location%5Bdirectory%5D=/usr&location%5Bworkspace%5D=wrk_1');
  assert.deepEqual(json, { directory: '/usr', workspaceID: 'wrk_1', project: { id: 'global', directory: '/usr' } });
});
