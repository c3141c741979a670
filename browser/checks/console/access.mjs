// Tokens, read-only access and share links.

import assert from 'node:assert/strict';
import { openConsole, openPage, startProcess, typeInto, untilShown } from '../../console.mjs';
import { check, until } from '../../harness.mjs';
import { Outlive } from '../../outlive.mjs';

check('console/a_token_is_requested_and_stored_in_the_tab', async (t) => {
  const server = await Outlive.start(t);
  const validToken = server.token;
  server.token = undefined;
  const page = await openConsole(t, server, { allowedStatuses: [401] });
  await page.getByTestId('token').fill('wrong-token');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').getByText('token_invalid').waitFor();
  await page.getByTestId('token').fill(validToken);
  await page.keyboard.press('Enter');
  await page.getByTestId('welcome').waitFor();
  await page.reload();
  await page.getByTestId('welcome').waitFor();
  assert.equal(await page.evaluate(() => localStorage.length), 0, 'nothing outlives the tab');
  await page.assertNoErrors();
});

check('console/no_token_is_requested_if_the_server_needs_none', async (t) => {
  const server = await Outlive.start(t, '--no-token');
  const page = await openConsole(t, server);
  await startProcess(page, 'cat', { tag: 'open' });
  await typeInto(page, page.getByTestId('terminal'), 'hello\n');
  await untilShown(page.getByTestId('terminal'), 'hello');
  await page.assertNoErrors();
});

check('console/a_read_token_opens_terminals_read_only', async (t) => {
  const server = await Outlive.start(t);
  const { id } = await server.call('POST', '/v1/processes', { command: 'cat', tty: true, tag: 'theirs' });
  const { token } = await server.call('POST', '/v1/tokens', { name: 'reader', scope: 'read' });
  const reader = Object.assign(Object.create(server), { token });
  const page = await openConsole(t, reader, { allowedStatuses: [403] });
  await page.getByTestId('process').getByText('theirs').click();
  await page.getByText('read-only', { exact: true }).waitFor();
  await server.call('POST', `/v1/processes/${id}/input`, { data: 'seen\n', encoding: 'utf8' });
  await untilShown(page.getByTestId('terminal'), 'seen');
  await startProcess(page, 'echo never');
  await page.getByTestId('start-dialog').getByRole('alert').getByText('scope').first().waitFor();
  await page.assertNoErrors();
});

check('console/a_share_link_opens_one_terminal_once_and_read_only', async (t) => {
  const server = await Outlive.start(t);
  const page = await openConsole(t, server);
  await startProcess(page, 'cat', { tag: 'shared' });
  const terminal = page.getByTestId('terminal');
  await typeInto(page, terminal, 'before the guest\n');
  await untilShown(terminal, 'before the guest');
  await page.getByTestId('pane-menu').click();
  await page.getByRole('menuitem', { name: 'Share read-only…' }).click();
  const link = await until('a link', () => page.getByTestId('share-link').inputValue());
  await page.keyboard.press('Escape');

  const guest = await openPage(t, link);
  await guest.getByTestId('state').getByText('live').waitFor();
  await untilShown(guest.getByTestId('terminal'), 'before the guest');
  assert.ok(!guest.url().includes('ticket'), 'the ticket is removed from the address bar');
  await typeInto(page, terminal, 'seen by both\n');
  await untilShown(guest.getByTestId('terminal'), 'seen by both');
  await typeInto(guest, guest.getByTestId('terminal'), 'typed by the guest\n');
  // Input of the guest would have arrived before this.
  await typeInto(page, terminal, 'and after the guest\n');
  await untilShown(guest.getByTestId('terminal'), 'and after the guest');
  const { attachments } = await server.call('GET', '/v1/processes/tag:shared/attachments');
  assert.deepEqual(attachments.map(({ role }) => role).sort(), ['viewer', 'writer']);
  assert.equal(attachments.find(({ role }) => role === 'viewer').lastInputAtMs ?? null, null, 'no input of the guest');
  // The owner sees the guest in the list of clients.
  await page.getByTestId('presence').getByText('2').waitFor();
  await page.getByTestId('presence').click();
  await page.getByTestId('clients').getByText('read-only').waitFor();
  await page.getByTestId('clients').getByText('typed last').waitFor();
  await guest.assertNoErrors();
  await page.assertNoErrors();

  const late = await openPage(t, link);
  await late.getByRole('alert').getByText('was already used').waitFor();
});
