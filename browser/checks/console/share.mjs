// Share links of an hour and a day: guests without a token, and their revocation.

import assert from 'node:assert/strict';
import { openConsole, openPage, startProcess, typeInto, untilShown } from '../../console.mjs';
import { check, until } from '../../harness.mjs';
import { Outlive } from '../../outlive.mjs';

/** Starts a terminal in the console and opens its share dialog. */
async function openShareDialog(t) {
  const server = await Outlive.start(t);
  const page = await openConsole(t, server);
  await startProcess(page, 'cat', { tag: 'shared' });
  await typeInto(page, page.getByTestId('terminal'), 'before the guest\n');
  await untilShown(page.getByTestId('terminal'), 'before the guest');
  await page.getByTestId('pane-menu').click();
  await page.getByRole('menuitem', { name: 'Share read-only…' }).click();
  const validity = page.getByTestId('share-validity');
  assert.deepEqual(await validity.locator('option').allInnerTexts(), [
    'One opening within a minute',
    'An hour',
    'A day',
  ]);
  return { server, page, validity };
}

/** Chooses how long a link is valid, and returns the link. */
async function createLink(page, validity, label) {
  await validity.selectOption(label);
  const row = page.getByTestId('active-link');
  await row.first().waitFor();
  return until('a link', () => page.getByTestId('share-link').inputValue());
}

check('console/a_link_for_an_hour_admits_several_guests_and_survives_the_server', async (t) => {
  const { server, page, validity } = await openShareDialog(t);
  const link = await createLink(page, validity, 'An hour');
  await page.getByTestId('share').getByText('Works up to 1000 times').waitFor();
  const guests = [await openPage(t, link), await openPage(t, link)];
  for (const guest of guests) {
    await untilShown(guest.getByTestId('terminal'), 'before the guest');
    assert.ok(!guest.url().includes('ticket'), 'the ticket is not in the address bar');
  }
  const { serverPid } = await server.call('GET', '/v1/health');
  process.kill(serverPid, 'SIGKILL');
  await until(
    'another server',
    async () => (await server.call('GET', '/v1/health').catch(() => ({}))).serverPid !== serverPid,
  );
  const input = { data: 'after the crash\n', encoding: 'utf8' };
  await until('input is accepted', () =>
    server.call('POST', '/v1/processes/tag:shared/input', input).then(
      () => true,
      () => false,
    ),
  );
  for (const guest of guests) await untilShown(guest.getByTestId('terminal'), 'after the crash');
  const { attachments } = await server.call('GET', '/v1/processes/tag:shared/attachments');
  assert.equal(attachments.filter(({ role }) => role === 'viewer').length, 2, 'guests cannot type');
});

check('console/a_revoked_link_admits_no_one_and_keeps_open_views', async (t) => {
  const { server, page, validity } = await openShareDialog(t);
  const link = await createLink(page, validity, 'A day');
  const guest = await openPage(t, link);
  await guest.getByTestId('state').getByText('live').waitFor();
  await page.getByTestId('active-link').getByRole('button', { name: 'Revoke' }).click();
  await page.getByTestId('share').getByText('Revoked. Create a new link.').waitFor();
  assert.equal(await page.getByTestId('active-link').count(), 0);
  assert.ok(await page.getByTestId('share-link').isDisabled());
  assert.deepEqual(
    (await server.call('GET', '/v1/tickets')).tickets.filter(({ usesLeft }) => usesLeft > 1),
    [],
  );
  await server.call('POST', '/v1/processes/tag:shared/input', { data: 'still open\n', encoding: 'utf8' });
  await untilShown(guest.getByTestId('terminal'), 'still open');
  const late = await openPage(t, link);
  await late.getByRole('alert').getByText('This link has expired or was revoked.').waitFor();
  await page.assertNoErrors();
});
