// Who is let in, and what a link shows to whom.

import assert from 'node:assert/strict';
import { openAt, openConsole, startBy, typeInto, untilShown } from '../../console.mjs';
import { check } from '../../frame.mjs';
import { Outlive } from '../../outlive.mjs';
import { until } from '../../until.mjs';

check('console/a_token_is_asked_for_and_kept_in_the_tab', async (t) => {
  const server = await Outlive.start(t);
  const given = server.token;
  server.token = undefined;
  const page = await openConsole(t, server, { refusals: [401] });
  await page.getByTestId('token').fill('not-this-one');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').getByText('token_invalid').waitFor();
  await page.getByTestId('token').fill(given);
  await page.keyboard.press('Enter');
  await page.getByTestId('welcome').waitFor();
  await page.reload();
  await page.getByTestId('welcome').waitFor();
  assert.equal(await page.evaluate(() => localStorage.length), 0, 'what outlives the tab');
  await page.inPeace();
});

check('console/without_a_token_nobody_is_asked', async (t) => {
  const server = await Outlive.start(t, '--no-token');
  const page = await openConsole(t, server);
  await startBy(page, 'cat', { tag: 'open' });
  await typeInto(page, page.getByTestId('terminal'), 'hello\n');
  await untilShown(page.getByTestId('terminal'), 'hello');
  await page.inPeace();
});

check('console/who_may_only_read_looks_on', async (t) => {
  const server = await Outlive.start(t);
  const { id } = await server.call('POST', '/v1/processes', { command: 'cat', tty: true, tag: 'theirs' });
  const { token } = await server.call('POST', '/v1/tokens', { name: 'reader', scope: 'read' });
  const reader = Object.assign(Object.create(server), { token });
  const page = await openConsole(t, reader, { refusals: [403] });
  await page.getByTestId('process').getByText('theirs').click();
  await page.getByText('read-only', { exact: true }).waitFor();
  await server.call('POST', `/v1/processes/${id}/input`, { data: 'seen\n', encoding: 'utf8' });
  await untilShown(page.getByTestId('terminal'), 'seen');
  await startBy(page, 'echo never');
  await page.getByTestId('start-dialog').getByRole('alert').getByText('scope').first().waitFor();
  await page.inPeace();
});

check('console/a_shared_link_shows_one_terminal_once_and_types_nothing', async (t) => {
  const server = await Outlive.start(t);
  const page = await openConsole(t, server);
  await startBy(page, 'cat', { tag: 'shared' });
  const terminal = page.getByTestId('terminal');
  await typeInto(page, terminal, 'before the guest\n');
  await untilShown(terminal, 'before the guest');
  await page.getByTestId('pane-menu').click();
  await page.getByRole('menuitem', { name: 'Share read-only…' }).click();
  const link = await until('a link', () => page.getByTestId('share-link').inputValue());
  await page.keyboard.press('Escape');

  const guest = await openAt(t, link);
  await guest.getByTestId('state').getByText('live').waitFor();
  await untilShown(guest.getByTestId('terminal'), 'before the guest');
  assert.ok(!guest.url().includes('ticket'), 'the ticket is in the address bar');
  await typeInto(page, terminal, 'seen by both\n');
  await untilShown(guest.getByTestId('terminal'), 'seen by both');
  await typeInto(guest, guest.getByTestId('terminal'), 'typed by the guest\n');
  // What the guest typed would have come before this.
  await typeInto(page, terminal, 'and after the guest\n');
  await untilShown(guest.getByTestId('terminal'), 'and after the guest');
  const { attachments } = await server.call('GET', '/v1/processes/tag:shared/attachments');
  assert.deepEqual(attachments.map(({ role }) => role).sort(), ['viewer', 'writer']);
  assert.equal(attachments.find(({ role }) => role === 'viewer').lastInputAtMs ?? null, null, 'input of the guest');
  // The one who shared it sees that somebody is there.
  await page.getByTestId('presence').getByText('2').waitFor();
  await page.getByTestId('presence').click();
  await page.getByTestId('people').getByText('looks on').waitFor();
  await page.getByTestId('people').getByText('typed last').waitFor();
  await guest.inPeace();
  await page.inPeace();

  const late = await openAt(t, link);
  await late.getByRole('alert').getByText('it works once').waitFor();
});
