// Cloudflare's own terminal addon, in a page, at our socket.

import assert from 'node:assert/strict';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { untilShown } from '../../console.mjs';
import { check } from '../../frame.mjs';
import { Outlive } from '../../outlive.mjs';
import { assertSameCells, cellsIn, keepTerminals } from '../../shown/cells.mjs';
import { openSandboxSite } from '../../shown/cloudflare/site.mjs';
import { cellsOf, everythingPrinted } from '../../shown/reference.mjs';
import { until } from '../../until.mjs';

const TERMINAL = 'tag:cloudflare-pty:in-a-page';

async function sandbox(t, isAllowed = true) {
  const site = await openSandboxSite(t);
  const server = await Outlive.start(t, ...(isAllowed ? ['--allow-origin', site] : []));
  const shell = join(await t.folder(), 'shell');
  await writeFile(shell, "#!/bin/sh\nexec env -u PROMPT_COMMAND PS1='ready> ' bash --norc --noprofile\n");
  await chmod(shell, 0o755);
  const page = await t.page();
  await keepTerminals(page);
  const socket = `${server.base.replace('http', 'ws')}/cloudflare/ws/pty?cols=100&rows=30&shell=${shell}&token=${server.token}`;
  await page.goto(`${site}/#${encodeURIComponent(socket)}`);
  const terminal = page.locator('main');
  return { server, page, terminal };
}

const untilState = (page, wanted) => until(`the addon is ${wanted}`, () => page.evaluate((state) => globalThis.addon.state === state, wanted));

async function type(page, terminal, text) {
  await terminal.click();
  await page.keyboard.type(text);
}

check('shown/the_addon_of_cloudflare_shows_types_and_resizes', async (t) => {
  const { server, page, terminal } = await sandbox(t);
  await untilState(page, 'connected');
  await untilShown(terminal, 'ready>');
  await type(page, terminal, "printf '\\e[31m%s\\e[0m 漢字\\n' $((6 * 7))x; stty size\n");
  await untilShown(terminal, '42x');
  await untilShown(terminal, '30 100');
  const cells = await cellsIn(page);
  assertSameCells(cells, await cellsOf(await everythingPrinted(server, TERMINAL), cells), 'the terminal');
  await page.evaluate(() => globalThis.shownTerminal().resize(120, 35));
  await until('it is known', async () => (await server.call('GET', `/v1/processes/${TERMINAL}`)).cols === 120);
  await type(page, terminal, 'stty size\n');
  await untilShown(terminal, '35 120');
  assert.deepEqual(await page.evaluate(() => globalThis.states), ['connecting', 'connected']);
});

check('shown/the_addon_of_cloudflare_comes_back_to_the_same_shell_when_the_server_dies', async (t) => {
  const { server, page, terminal } = await sandbox(t);
  await untilShown(terminal, 'ready>');
  await type(page, terminal, 'KEPT=$((40 + 2)); echo be""fore\n');
  await untilShown(terminal, 'before');
  const { serverPid } = await server.call('GET', '/v1/health');
  const begun = Date.now();
  process.kill(serverPid, 'SIGKILL');
  await until('it was noticed', () => page.evaluate(() => globalThis.states.length > 2));
  await untilState(page, 'connected');
  const took = Date.now() - begun;
  await type(page, terminal, 'echo $KEPT still\n');
  await untilShown(terminal, '42 still');
  const { lines } = await cellsIn(page);
  const shown = lines.map(({ text }) => text.trim());
  assert.equal(shown.filter((line) => line === 'before').length, 1, shown.filter(Boolean).join(' | '));
  t.measured.push(`back after ${took} ms`);
});

check('shown/the_addon_of_cloudflare_on_a_page_that_is_not_allowed', async (t) => {
  const { server, page } = await sandbox(t, false);
  await until('it was refused', () => page.evaluate(() => globalThis.states.some((state) => state.includes('error'))));
  assert.equal((await server.call('GET', '/v1/processes?all=true')).processes.length, 0);
});
