// Start something, work in it, divide the window, come back.

import assert from 'node:assert/strict';
import { openConsole, prefix, screenText, startBy, typeInto, untilShown } from '../../console.mjs';
import { check } from '../../frame.mjs';
import { Outlive } from '../../outlive.mjs';
import { until } from '../../until.mjs';

check('console/a_terminal_is_started_and_typed_into', async (t) => {
  const server = await Outlive.start(t);
  const page = await openConsole(t, server);
  await page.getByTestId('welcome').waitFor();
  assert.ok(!page.url().includes('token'), 'the token is in the address bar');
  await startBy(page, 'bash --norc', { tag: 'work' });
  const terminal = page.getByTestId('terminal');
  await untilShown(terminal, 'bash');
  // The focus is there without a click.
  await page.keyboard.type("printf '\\e[38;2;200;80;0m%s\\e[0m\\n' $((6*7))x\n");
  await untilShown(terminal, '42x');
  const [process] = (await server.call('GET', '/v1/processes')).processes;
  assert.equal(process.tag, 'work');
  assert.ok(process.cols > 80, 'the terminal has the size of its pane');
  assert.equal(await page.getByTestId('tab').innerText(), 'work');
  await page.inPeace();
});

check('console/the_list_lives_by_events', async (t) => {
  const server = await Outlive.start(t);
  const page = await openConsole(t, server);
  await page.getByText('Nothing runs.').waitFor();
  const asked = [];
  page.on('request', (request) => asked.push(new URL(request.url()).pathname));
  const { id } = await server.call('POST', '/v1/processes', { command: 'sleep', args: ['60'], tag: '<b>bold</b>' });
  const row = page.locator(`[data-testid=process][data-id="${id}"]`);
  await row.getByText('running').waitFor();
  // Text of others is text.
  assert.ok((await row.innerText()).includes('<b>bold</b>'));
  await server.call('POST', `/v1/processes/${id}/kill`);
  await row.getByText('killed SIGKILL').waitFor();
  await server.call('DELETE', `/v1/processes/${id}`);
  await row.waitFor({ state: 'detached' });
  assert.deepEqual(
    asked.filter((path) => path !== '/v1/sessions'),
    [],
    'requests that were made for it',
  );
  await page.inPeace();
});

// A right click closed it, and `rt` began something new, because of "Start a process…".
check('console/a_middle_click_closes_a_tab_and_an_exact_name_is_found_first', async (t) => {
  const server = await Outlive.start(t);
  const page = await openConsole(t, server);
  await startBy(page, 'echo con""nected; cat', { tag: 'rt' });
  const terminal = page.getByTestId('terminal');
  await untilShown(terminal, 'connected');
  const tab = page.getByTestId('tab');
  await tab.click({ button: 'right' });
  await page.keyboard.press('Escape');
  assert.equal(await tab.count(), 1, 'a right click changes nothing');
  await tab.click({ button: 'middle' });
  await until('no tab', async () => (await tab.count()) === 0);
  await page.keyboard.press('Control+k');
  await page.getByTestId('palette-input').fill('rt');
  assert.match(await page.locator('#palette-0').innerText(), /^rt/);
  await page.keyboard.press('Enter');
  await untilShown(terminal, 'connected');
  assert.equal(await tab.count(), 1, 'it is open again');
  await page.inPeace();
});

check('console/panes_are_divided_moved_and_closed_by_keys', async (t) => {
  const server = await Outlive.start(t);
  const page = await openConsole(t, server);
  await startBy(page, 'cat', { tag: 'one' });
  await page.getByTestId('terminal').waitFor();
  await startBy(page, 'cat', { tag: 'two' });
  await until('two tabs', async () => (await page.getByTestId('tab').count()) === 2);
  await page.locator('.pane:visible .xterm-helper-textarea').focus();
  await prefix(page, '|');
  await page.getByTestId('palette-input').fill('one');
  await page.keyboard.press('Enter');
  const panes = page.locator('.pane:visible');
  await until('two panes', async () => (await panes.count()) === 2);
  const [left, right] = [await panes.first().boundingBox(), await panes.nth(1).boundingBox()].sort((a, b) => a.x - b.x);
  assert.ok(Math.abs(left.width - right.width) < 3 && right.x > left.x, 'they are side by side');

  const line = page.getByTestId('divider');
  const at = await line.boundingBox();
  await page.mouse.move(at.x + 4, at.y + 200);
  await page.mouse.down();
  await page.mouse.move(at.x - 150, at.y + 200, { steps: 4 });
  await page.mouse.up();
  await until('the divider has moved', async () => (await line.boundingBox()).x < at.x - 100);

  await page.locator('.pane:visible .xterm-helper-textarea').last().focus();
  await prefix(page, 'x');
  await until('one pane', async () => (await panes.count()) === 1);
  await prefix(page, 'p');
  await page.locator('[data-testid=tab][aria-selected=true]').getByText('one').waitFor();
  // Twice is once for the program: cat is ended by it.
  await page.keyboard.press('Control+\\');
  await page.keyboard.press('Control+\\');
  await until('it got SIGQUIT', async () => (await server.call('GET', '/v1/processes/tag:one')).status === 'exited');
  await page.inPeace();
});

check('console/tabs_are_there_again_after_a_reload', async (t) => {
  const server = await Outlive.start(t);
  const page = await openConsole(t, server);
  await startBy(page, 'cat', { tag: 'kept' });
  const terminal = page.getByTestId('terminal');
  await terminal.locator('.xterm-rows').waitFor();
  await page.reload();
  await page.getByTestId('tab').getByText('kept').waitFor();
  await until('the terminal is attached', async () => (await server.call('GET', '/v1/processes/tag:kept')).attachments === 1);
  await typeInto(page, terminal, 'again\n');
  await untilShown(terminal, 'again');
  await page.inPeace();
});

check('console/a_screen_from_before_is_there_and_gets_our_size', async (t) => {
  const server = await Outlive.start(t);
  const line = "printf 'long ago\\n'; printf '\\033]2;named <b>\\007\\033[?1049h\\033[5;5Hfull screen'; cat";
  await server.call('POST', '/v1/processes', { command: line, shell: true, tty: true, tag: 'before' });
  await server.call('POST', '/v1/processes/tag:before/wait', { for: 'output', pattern: 'full screen' });
  const page = await openConsole(t, server);
  await page.getByTestId('process').getByText('before').click();
  const terminal = page.getByTestId('terminal');
  await untilShown(terminal, 'full screen');
  await page.getByText('named <b>', { exact: true }).waitFor();
  await until('it has our size', async () => (await server.call('GET', '/v1/processes/tag:before')).cols > 100);
  await page.reload();
  await untilShown(terminal, 'full screen');
  assert.ok(!(await screenText(terminal)).includes('long ago'), 'the screen below shines through');
  await page.inPeace();
});

check('console/what_is_opened_before_the_list_is_there_is_opened_once', async (t) => {
  const server = await Outlive.start(t);
  const page = await openConsole(t, server);
  await startBy(page, 'cat', { tag: 'early' });
  await page.getByTestId('tab').waitFor();
  let letGo;
  const held = new Promise((resolve) => (letGo = resolve));
  await page.route('**/v1/events', async (route) => {
    await held;
    await route.continue();
  });
  await page.reload();
  await startBy(page, 'cat', { tag: 'new' });
  await until('both tabs', async () => (await page.getByTestId('tab').count()) === 2);
  letGo();
  await page.getByTestId('process').filter({ hasText: 'early' }).waitFor();
  await typeInto(page, page.locator('[data-testid=terminal]:visible'), 'once\n');
  await untilShown(page.locator('[data-testid=terminal]:visible'), 'once');
  assert.equal((await server.call('GET', '/v1/processes/tag:new')).attachments, 1);
  await page.inPeace();
});

check('console/a_restart_goes_on_in_the_same_pane', async (t) => {
  const server = await Outlive.start(t);
  const page = await openConsole(t, server);
  await startBy(page, 'read line; exit 3', { tag: 'again' });
  const terminal = page.getByTestId('terminal');
  await typeInto(page, terminal, '\n');
  await page.getByTestId('terminal-state').getByText('It exited with 3.').waitFor();
  await page.getByTestId('terminal-pane').getByTestId('state').getByText('exit 3').waitFor();
  await page.getByTestId('pane-menu').click();
  await page.getByRole('menuitem', { name: 'Start again' }).click();
  await page.getByTestId('terminal-pane').getByTestId('state').getByText('running').waitFor();
  await until('it is attached again', async () => (await server.call('GET', '/v1/processes/tag:again')).attachments === 1);
  await typeInto(page, terminal, '\n');
  await page.getByTestId('terminal-state').getByText('It exited with 3.').waitFor();
  await page.inPeace();
});

check('console/a_server_that_dies_is_outlived', async (t) => {
  const server = await Outlive.start(t);
  const page = await openConsole(t, server, { refusals: [502] });
  await startBy(page, 'cat', { tag: 'lasting' });
  const terminal = page.getByTestId('terminal');
  await typeInto(page, terminal, 'before\n');
  await untilShown(terminal, 'before');
  const { serverPid } = await server.call('GET', '/v1/health');
  process.kill(serverPid, 'SIGKILL');
  await until('another server is there', async () => (await server.call('GET', '/v1/health').catch(() => ({}))).serverPid !== serverPid);
  await until(
    'it is attached again',
    async () => (await server.call('GET', '/v1/processes/tag:lasting').catch(() => ({}))).attachments === 1,
  );
  await typeInto(page, terminal, 'after\n');
  await untilShown(terminal, 'after');
  assert.ok((await screenText(terminal)).includes('before'), 'what was there before');
});
