// Terminals, tabs and panes of the console.

import assert from 'node:assert/strict';
import { openConsole, pressPrefix, screenText, startProcess, typeInto, untilShown } from '../../console.mjs';
import { check, until } from '../../harness.mjs';
import { Outlive } from '../../outlive.mjs';

check('console/a_terminal_is_started_and_typed_into', async (t) => {
  const server = await Outlive.start(t);
  const page = await openConsole(t, server);
  await page.getByTestId('welcome').waitFor();
  assert.ok(!page.url().includes('token'), 'the token is removed from the address bar');
  await startProcess(page, 'bash --norc', { tag: 'work' });
  const terminal = page.getByTestId('terminal');
  await untilShown(terminal, 'bash');
  // The terminal has the focus without a click.
  await page.keyboard.type("printf '\\e[38;2;200;80;0m%s\\e[0m\\n' $((6*7))x\n");
  await untilShown(terminal, '42x');
  const [process] = (await server.call('GET', '/v1/processes')).processes;
  assert.equal(process.tag, 'work');
  assert.ok(process.cols > 80, 'the terminal has the size of its pane');
  assert.equal(await page.getByTestId('tab').innerText(), 'work');
  await page.assertNoErrors();
});

check('console/the_process_list_is_updated_by_events', async (t) => {
  const server = await Outlive.start(t);
  const page = await openConsole(t, server);
  await page.getByText('No running processes').waitFor();
  const requested = [];
  page.on('request', (request) => requested.push(new URL(request.url()).pathname));
  const { id } = await server.call('POST', '/v1/processes', { command: 'sleep', args: ['60'], tag: '<b>bold</b>' });
  const row = page.locator(`[data-testid=process][data-id="${id}"]`);
  await row.getByText('running').waitFor();
  // Tags are shown as text, not as HTML.
  assert.ok((await row.innerText()).includes('<b>bold</b>'));
  await server.call('POST', `/v1/processes/${id}/kill`);
  await row.getByText('killed SIGKILL').waitFor();
  await server.call('DELETE', `/v1/processes/${id}`);
  await row.waitFor({ state: 'detached' });
  assert.deepEqual(
    requested.filter((path) => path !== '/v1/sessions'),
    [],
    'no further requests',
  );
  await page.assertNoErrors();
});

// Regression: a right click closed the tab, and "rt" in the palette selected a command whose title contains it.
check('console/a_middle_click_closes_a_tab_and_an_exact_name_is_found_first', async (t) => {
  const server = await Outlive.start(t);
  const page = await openConsole(t, server);
  await startProcess(page, 'echo con""nected; cat', { tag: 'rt' });
  const terminal = page.getByTestId('terminal');
  await untilShown(terminal, 'connected');
  const tab = page.getByTestId('tab');
  await tab.click({ button: 'right' });
  await page.keyboard.press('Escape');
  assert.equal(await tab.count(), 1, 'a right click keeps the tab');
  await tab.click({ button: 'middle' });
  await until('no tab', async () => (await tab.count()) === 0);
  await page.keyboard.press('Control+k');
  await page.getByTestId('palette-input').fill('rt');
  assert.match(await page.locator('#palette-0').innerText(), /^rt/);
  await page.keyboard.press('Enter');
  await untilShown(terminal, 'connected');
  assert.equal(await tab.count(), 1, 'the tab is open again');
  await page.assertNoErrors();
});

check('console/panes_are_split_resized_and_closed', async (t) => {
  const server = await Outlive.start(t);
  const page = await openConsole(t, server);
  await startProcess(page, 'cat', { tag: 'one' });
  await page.getByTestId('terminal').waitFor();
  await startProcess(page, 'cat', { tag: 'two' });
  await until('two tabs', async () => (await page.getByTestId('tab').count()) === 2);
  await page.locator('.pane:visible .xterm-helper-textarea').focus();
  await pressPrefix(page, '|');
  await page.getByTestId('palette-input').fill('one');
  await page.keyboard.press('Enter');
  const panes = page.locator('.pane:visible');
  await until('two panes', async () => (await panes.count()) === 2);
  const [left, right] = [await panes.first().boundingBox(), await panes.nth(1).boundingBox()].sort((a, b) => a.x - b.x);
  assert.ok(Math.abs(left.width - right.width) < 3 && right.x > left.x, 'the panes are side by side');

  const line = page.getByTestId('divider');
  const at = await line.boundingBox();
  await page.mouse.move(at.x + 4, at.y + 200);
  await page.mouse.down();
  await page.mouse.move(at.x - 150, at.y + 200, { steps: 4 });
  await page.mouse.up();
  await until('the divider has moved', async () => (await line.boundingBox()).x < at.x - 100);

  await page.locator('.pane:visible .xterm-helper-textarea').last().focus();
  await pressPrefix(page, 'x');
  await until('one pane', async () => (await panes.count()) === 1);
  await pressPrefix(page, 'p');
  await page.locator('[data-testid=tab][aria-selected=true]').getByText('one').waitFor();
  // The prefix pressed twice reaches the program once, as SIGQUIT.
  await page.keyboard.press('Control+\\');
  await page.keyboard.press('Control+\\');
  await until(
    'the program has exited',
    async () => (await server.call('GET', '/v1/processes/tag:one')).status === 'exited',
  );
  await page.assertNoErrors();
});

check('console/tabs_are_restored_after_a_reload', async (t) => {
  const server = await Outlive.start(t);
  const page = await openConsole(t, server);
  await startProcess(page, 'cat', { tag: 'kept' });
  const terminal = page.getByTestId('terminal');
  await terminal.locator('.xterm-rows').waitFor();
  await page.reload();
  await page.getByTestId('tab').getByText('kept').waitFor();
  await until(
    'the terminal is attached',
    async () => (await server.call('GET', '/v1/processes/tag:kept')).attachments === 1,
  );
  await typeInto(page, terminal, 'again\n');
  await untilShown(terminal, 'again');
  await page.assertNoErrors();
});

check('console/an_existing_screen_is_shown_and_resized_to_the_pane', async (t) => {
  const server = await Outlive.start(t);
  const line = "printf 'long ago\\n'; printf '\\033]2;named <b>\\007\\033[?1049h\\033[5;5Hfull screen'; cat";
  await server.call('POST', '/v1/processes', { command: line, shell: true, tty: true, tag: 'before' });
  await server.call('POST', '/v1/processes/tag:before/wait', { for: 'output', pattern: 'full screen' });
  const page = await openConsole(t, server);
  await page.getByTestId('process').getByText('before').click();
  const terminal = page.getByTestId('terminal');
  await untilShown(terminal, 'full screen');
  await page.getByText('named <b>', { exact: true }).waitFor();
  await until(
    'the terminal has the size of the pane',
    async () => (await server.call('GET', '/v1/processes/tag:before')).cols > 100,
  );
  await page.reload();
  await untilShown(terminal, 'full screen');
  assert.ok(!(await screenText(terminal)).includes('long ago'), 'the hidden main screen is not shown');
  await page.assertNoErrors();
});

check('console/a_tab_opened_before_the_list_is_loaded_is_opened_once', async (t) => {
  const server = await Outlive.start(t);
  const page = await openConsole(t, server);
  await startProcess(page, 'cat', { tag: 'early' });
  await page.getByTestId('tab').waitFor();
  let release;
  const released = new Promise((resolve) => (release = resolve));
  await page.route('**/v1/events', async (route) => {
    await released;
    await route.continue();
  });
  await page.reload();
  await startProcess(page, 'cat', { tag: 'new' });
  await until('both tabs', async () => (await page.getByTestId('tab').count()) === 2);
  release();
  await page.getByTestId('process').filter({ hasText: 'early' }).waitFor();
  await typeInto(page, page.locator('[data-testid=terminal]:visible'), 'once\n');
  await untilShown(page.locator('[data-testid=terminal]:visible'), 'once');
  assert.equal((await server.call('GET', '/v1/processes/tag:new')).attachments, 1);
  await page.assertNoErrors();
});

check('console/a_restarted_process_continues_in_the_same_pane', async (t) => {
  const server = await Outlive.start(t);
  const page = await openConsole(t, server);
  await startProcess(page, 'read line; exit 3', { tag: 'again' });
  const terminal = page.getByTestId('terminal');
  await typeInto(page, terminal, '\n');
  await page.getByTestId('terminal-state').getByText('Exited with code 3').waitFor();
  await page.getByTestId('terminal-pane').getByTestId('state').getByText('exit 3').waitFor();
  await page.getByTestId('pane-menu').click();
  await page.getByRole('menuitem', { name: 'Start again' }).click();
  await page.getByTestId('terminal-pane').getByTestId('state').getByText('running').waitFor();
  await until(
    'the terminal is attached again',
    async () => (await server.call('GET', '/v1/processes/tag:again')).attachments === 1,
  );
  await typeInto(page, terminal, '\n');
  await page.getByTestId('terminal-state').getByText('Exited with code 3').waitFor();
  await page.assertNoErrors();
});

check('console/a_terminal_survives_a_killed_server', async (t) => {
  const server = await Outlive.start(t);
  const page = await openConsole(t, server, { allowedStatuses: [502] });
  await startProcess(page, 'cat', { tag: 'lasting' });
  const terminal = page.getByTestId('terminal');
  await typeInto(page, terminal, 'before\n');
  await untilShown(terminal, 'before');
  const { serverPid } = await server.call('GET', '/v1/health');
  process.kill(serverPid, 'SIGKILL');
  await until(
    'another server runs',
    async () => (await server.call('GET', '/v1/health').catch(() => ({}))).serverPid !== serverPid,
  );
  await until(
    'the terminal is attached again',
    async () => (await server.call('GET', '/v1/processes/tag:lasting').catch(() => ({}))).attachments === 1,
  );
  await typeInto(page, terminal, 'after\n');
  await untilShown(terminal, 'after');
  assert.ok((await screenText(terminal)).includes('before'), 'earlier output is still shown');
});
