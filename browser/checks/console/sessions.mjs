// Sessions that other clients use: the console shows them by events, without reading lists again.

import assert from 'node:assert/strict';
import { openConsole } from '../../console.mjs';
import { check } from '../../harness.mjs';
import { Outlive } from '../../outlive.mjs';

check('console/sessions_of_other_clients_appear_change_and_disappear', async (t) => {
  const server = await Outlive.start(t);
  const page = await openConsole(t, server);
  await page.getByText('No sessions').waitFor();
  const requested = [];
  page.on('request', (request) => requested.push(new URL(request.url()).pathname));
  await server.call('POST', '/v1/sessions', { id: 'other' });
  const row = page.locator('[data-testid=session][data-id=other]');
  await row.getByText('idle').waitFor();
  const { execId } = await server.call('POST', '/v1/sessions/other/exec', {
    command: 'cd /usr; sleep 100',
    detach: true,
  });
  await row.getByText('busy').waitFor();
  await server.call('POST', `/v1/sessions/other/execs/${execId}/cancel`);
  await row.getByText('/usr').waitFor();
  await server.call('POST', '/v1/sessions/other/exec', { command: 'exit 3' });
  await row.getByText('exited').waitFor();
  await server.call('DELETE', '/v1/sessions/other');
  await row.waitFor({ state: 'detached' });
  // The earlier boots are read once, after the page is shown.
  const repeated = requested.filter((path) => path !== '/v1/history');
  assert.deepEqual(repeated, [], 'requests of the page');
  await page.assertNoErrors();
});

check('console/commands_of_other_clients_appear_in_an_open_session', async (t) => {
  const server = await Outlive.start(t);
  const page = await openConsole(t, server);
  await server.call('POST', '/v1/sessions', { id: 'shared' });
  await page.getByTestId('session').getByText('shared').click();
  const exec = (command, options = {}) => server.call('POST', '/v1/sessions/shared/exec', { command, ...options });
  const views = page.getByTestId('exec');
  await exec('echo from another client');
  await views.locator('.line').getByText('from another client', { exact: true }).waitFor();
  // Running and waiting commands are shown too, and a cancelled one ends.
  const running = await exec('sleep 100', { detach: true });
  const waiting = await exec('echo at last', { detach: true });
  await views.nth(2).getByText('running').waitFor();
  await server.call('POST', `/v1/sessions/shared/execs/${running.execId}/cancel`);
  await views.nth(1).getByText('cancelled').waitFor();
  await views.nth(2).locator('.line').getByText('at last', { exact: true }).waitFor();
  assert.ok(waiting.execId);
  // Commands of this page are shown once, although events announce them as well.
  await page.getByTestId('session-command').fill('echo from this page');
  await page.keyboard.press('Enter');
  await views.locator('.line').getByText('from this page', { exact: true }).waitFor();
  await exec('true');
  await views.nth(4).getByText(/ms|s/).waitFor();
  assert.equal(await views.count(), 5);
  await page.assertNoErrors();
});
