// Cloudflare's own terminal addon in a page, connected to outlive.

import assert from 'node:assert/strict';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { untilShown } from '../../console.mjs';
import { check, until } from '../../harness.mjs';
import { Outlive } from '../../outlive.mjs';
import { assertSameCells, captureTerminals, readCells } from '../../display/cells.mjs';
import { openSandboxSite } from '../../display/cloudflare/site.mjs';
import { readAllOutput, renderCells } from '../../display/reference.mjs';

const TERMINAL = 'tag:cloudflare-pty:in-a-page';

async function sandbox(t, isAllowed = true) {
  const site = await openSandboxSite(t);
  const server = await Outlive.start(t, ...(isAllowed ? ['--allow-origin', site] : []));
  const shell = join(await t.tempDir(), 'shell');
  await writeFile(shell, "#!/bin/sh\nexec env -u PROMPT_COMMAND PS1='ready> ' bash --norc --noprofile\n");
  await chmod(shell, 0o755);
  const page = await t.page();
  await captureTerminals(page);
  const query = `cols=100&rows=30&shell=${shell}&token=${server.token}`;
  const socket = `${server.base.replace('http', 'ws')}/cloudflare/ws/pty?${query}`;
  await page.goto(`${site}/#${encodeURIComponent(socket)}`);
  const terminal = page.locator('main');
  return { server, page, terminal };
}

const untilState = (page, expected) =>
  until(`the addon is ${expected}`, () => page.evaluate((state) => globalThis.addon.state === state, expected));

async function type(page, terminal, text) {
  await terminal.click();
  await page.keyboard.type(text);
}

check('display/cloudflare_addon_shows_output_types_and_resizes', async (t) => {
  const { server, page, terminal } = await sandbox(t);
  await untilState(page, 'connected');
  await untilShown(terminal, 'ready>');
  await type(page, terminal, "printf '\\e[31m%s\\e[0m 漢字\\n' $((6 * 7))x; stty size\n");
  await untilShown(terminal, '42x');
  await untilShown(terminal, '30 100');
  const cells = await readCells(page);
  assertSameCells(cells, await renderCells(await readAllOutput(server, TERMINAL), cells), 'the terminal');
  await page.evaluate(() => globalThis.visibleTerminal().resize(120, 35));
  await until(
    'the server has the new size',
    async () => (await server.call('GET', `/v1/processes/${TERMINAL}`)).cols === 120,
  );
  await type(page, terminal, 'stty size\n');
  await untilShown(terminal, '35 120');
  assert.deepEqual(await page.evaluate(() => globalThis.states), ['connecting', 'connected']);
});

check('display/cloudflare_addon_reconnects_to_the_same_shell_after_a_server_kill', async (t) => {
  const { server, page, terminal } = await sandbox(t);
  await untilShown(terminal, 'ready>');
  await type(page, terminal, 'KEPT=$((40 + 2)); echo be""fore\n');
  await untilShown(terminal, 'before');
  const { serverPid } = await server.call('GET', '/v1/health');
  const startedAt = Date.now();
  process.kill(serverPid, 'SIGKILL');
  await until('the addon notices the loss', () => page.evaluate(() => globalThis.states.length > 2));
  await untilState(page, 'connected');
  const elapsed = Date.now() - startedAt;
  await type(page, terminal, 'echo $KEPT still\n');
  await untilShown(terminal, '42 still');
  const { lines } = await readCells(page);
  const shown = lines.map(({ text }) => text.trim());
  assert.equal(shown.filter((line) => line === 'before').length, 1, shown.filter(Boolean).join(' | '));
  t.measured.push(`reconnected after ${elapsed} ms`);
});

check('display/cloudflare_addon_is_rejected_on_a_page_that_is_not_allowed', async (t) => {
  const { server, page } = await sandbox(t, false);
  await until('the connection is rejected', () =>
    page.evaluate(() => globalThis.states.some((state) => state.includes('error'))),
  );
  assert.equal((await server.call('GET', '/v1/processes?all=true')).processes.length, 0);
});
