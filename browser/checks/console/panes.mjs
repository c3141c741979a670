// Logs, sessions, recordings, confirmations and the phone layout.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { openConsole, screenText, startProcess, typeInto, untilShown } from '../../console.mjs';
import { check, until } from '../../harness.mjs';
import { Outlive } from '../../outlive.mjs';

check('console/a_log_marks_stderr_follows_and_is_searchable', async (t) => {
  const server = await Outlive.start(t);
  const page = await openConsole(t, server);
  await startProcess(page, 'seq 1 3000; echo "<i>worse</i>" >&2; read line; echo "got $line"', {
    tag: 'log',
    isTerminal: false,
  });
  const log = page.getByTestId('log');
  await log.locator('.line.stderr').getByText('<i>worse</i>', { exact: true }).waitFor();
  const isAtEnd = () => log.evaluate((node) => node.scrollHeight - node.scrollTop - node.clientHeight < 30);
  const follows = async () => (await page.getByTestId('follow').getAttribute('aria-pressed')) === 'true';
  await until('the log follows its end', isAtEnd);
  await log.hover();
  await page.mouse.wheel(0, -400);
  await until('scrolling up stops following', async () => !(await follows()));
  await page.getByTestId('follow').click();
  await until('the log follows again', async () => (await follows()) && (await isAtEnd()));
  await page.getByTestId('log-search').fill('299');
  await page.getByText('13 of 13').waitFor();
  await page.keyboard.press('Enter');
  await page.getByText('12 of 13').waitFor();
  for (let step = 0; step < 11; step += 1) await page.keyboard.press('Enter');
  await page.getByText('1 of 13', { exact: true }).waitFor();
  const found = log.getByText('299', { exact: true });
  await until('the first match is in view', () =>
    found.evaluate((line) => {
      const [{ top, bottom }, view] = [line.getBoundingClientRect(), line.closest('.log').getBoundingClientRect()];
      return top >= view.top && bottom <= view.bottom;
    }),
  );
  await server.call('POST', '/v1/processes/tag:log/input', { data: 'more\n', encoding: 'utf8' });
  await log.getByText('got more').waitFor();
  await log.getByText('Exited with code 0').waitFor();
  await page.assertNoErrors();
});

check('console/a_session_keeps_its_state_and_shows_output', async (t) => {
  const server = await Outlive.start(t);
  const page = await openConsole(t, server);
  await page.getByTestId('new-session').click();
  await page.getByTestId('session-id').fill('work');
  await page.getByTestId('session-submit').click();
  const run = async (command) => {
    await page.getByTestId('session-command').fill(command);
    await page.keyboard.press('Enter');
  };
  await run('cd /usr; LEVEL=3; echo to stderr >&2; (exit 4)');
  await page.getByTestId('exec-end').getByText('exit 4').waitFor();
  await page.locator('.exec .line.stderr').getByText('to stderr').waitFor();
  await run('echo level $LEVEL in $PWD');
  await page.locator('.exec .line').getByText('level 3 in /usr').waitFor();
  await run('echo started; sleep 100');
  await page.locator('.exec .line').getByText('started', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.getByTestId('exec-end').getByText('cancelled').waitFor();
  await page.reload();
  await page.locator('.exec .line').getByText('level 3 in /usr').waitFor();
  await run('exit 9');
  await page.getByTestId('exec-end').getByText('shell exited').waitFor();
  await run('echo never');
  await page.locator('.exec .error-line').getByText('session_exited').waitFor();
});

check('console/a_session_command_survives_a_killed_server', async (t) => {
  const server = await Outlive.start(t);
  const page = await openConsole(t, server, { allowedStatuses: [502] });
  await server.call('POST', '/v1/sessions', { id: 'lasting' });
  await page.reload();
  await page.getByTestId('session').getByText('lasting').click();
  await page.getByTestId('session-command').fill('echo started; sleep 1; echo survived');
  await page.keyboard.press('Enter');
  await page.locator('.exec .line').getByText('started', { exact: true }).waitFor();
  const { serverPid } = await server.call('GET', '/v1/health');
  process.kill(serverPid, 'SIGKILL');
  await page.locator('.exec .line').getByText('survived', { exact: true }).waitFor();
  await page
    .getByTestId('exec-end')
    .getByText(/\d\.\d s/)
    .waitFor();
});

check('console/a_recording_is_played_seeked_and_downloaded', async (t) => {
  const server = await Outlive.start(t);
  const page = await openConsole(t, server);
  await startProcess(page, 'for i in 1 2 3 4; do echo moment $i; sleep 0.4; done; cat', { tag: 'film' });
  await untilShown(page.getByTestId('terminal'), 'moment 4');
  await page.getByTestId('pane-menu').click();
  await page.getByRole('menuitem', { name: 'Play recording' }).click();
  const screen = page.getByTestId('recording');
  await untilShown(screen, 'moment 4');
  await page.getByTestId('seek').fill('0');
  await until('the recording is at its start', async () => !(await screenText(screen)).includes('moment 4'));
  await page.getByTestId('speed').selectOption('8');
  const button = page.getByTestId('play');
  if ((await button.getAttribute('aria-label')) === 'Play') await button.click();
  await untilShown(screen, 'moment 4');
  await until('the recording has ended', async () => (await button.getAttribute('aria-label')) === 'Play');
  const download = page.waitForEvent('download');
  await page.getByTestId('download').click();
  const file = await download;
  assert.equal(file.suggestedFilename(), 'recording-of-film.cast');
  assert.equal(JSON.parse((await readFile(await file.path(), 'utf8')).split('\n')[0]).version, 2);
  await page.assertNoErrors();
});

check('console/destructive_actions_need_confirmation_and_errors_are_shown', async (t) => {
  const server = await Outlive.start(t);
  const page = await openConsole(t, server, { allowedStatuses: [400, 409] });
  await startProcess(page, 'cat', { tag: 'victim' });
  const terminal = page.getByTestId('terminal');
  await typeInto(page, terminal, 'alive\n');
  await untilShown(terminal, 'alive');
  const row = page.getByTestId('process').filter({ hasText: 'victim' });
  const choose = async (name) => {
    await row.hover();
    await row.getByTestId('row-menu').click();
    await page.getByRole('menuitem', { name }).click();
  };
  await choose('Kill…');
  await page.getByRole('button', { name: 'Cancel' }).click();
  assert.equal((await server.call('GET', '/v1/processes/tag:victim')).status, 'running');
  await choose('Kill…');
  await page.getByTestId('confirm-yes').click();
  await row.getByText('killed SIGKILL').waitFor();
  await choose('Delete…');
  await page.getByTestId('confirm-yes').click();
  await row.waitFor({ state: 'detached' });
  // The pane of the deleted process is closed.
  await page.getByTestId('welcome').waitFor();

  await page.getByTestId('start').click();
  await page.getByTestId('argv').check();
  await page.getByTestId('command').fill('no-such-program\n--flag');
  await page.getByTestId('start-submit').click();
  const alert = page.getByTestId('start-dialog').getByRole('alert');
  await alert.getByText('command_not_found').waitFor();
  assert.match(await alert.innerText(), /no-such-program: command not found/);
  await page.assertNoErrors();
});

check('console/the_console_fits_a_phone', async (t) => {
  const server = await Outlive.start(t);
  const page = await openConsole(t, server, { viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true });
  await startProcess(page, 'cat', { tag: 'pocket' });
  const terminal = page.getByTestId('terminal');
  await typeInto(page, terminal, 'thumb\n');
  await untilShown(terminal, 'thumb');
  await page.getByRole('button', { name: 'Control C' }).click();
  await page.getByTestId('terminal-state').getByText('Terminated by SIGINT').waitFor();
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.equal(width, 390, 'the page is not wider than the window');
  await page.getByRole('button', { name: 'Back to the list' }).click();
  await page.getByTestId('process').filter({ hasText: 'pocket' }).waitFor();
  await page.assertNoErrors();
});
