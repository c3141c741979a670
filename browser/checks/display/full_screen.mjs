// After a full-screen program exits, the screen is restored, also for clients that attached meanwhile.

import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { findProgram } from '../../chromium.mjs';
import { openPage, PROMPT, startShell, untilShown } from '../../console.mjs';
import { assertSameCells, readCells } from '../../display/cells.mjs';
import { readAllOutput, renderCells } from '../../display/reference.mjs';
import { check, until } from '../../harness.mjs';
import { Outlive } from '../../outlive.mjs';

const ADDED = 'and this was added';

/** A minimal editor for machines without vim. */
const STAND_IN = `printf '\\e[?1049h\\e[H\\e[2J\\e[44m%s\\e[0m\\r\\n' "$(cat "$1")"; read -r text; printf '%s' "$text" >> "$1"; read -r leave; printf '\\e[?1049l'`;

const EDITORS = {
  vim: {
    command: 'vim',
    add: `o${ADDED}`,
    leave: async (page) => (await page.keyboard.press('Escape'), page.keyboard.type(':wq\n')),
  },
  stand_in: { command: 'bash stand-in', add: `${ADDED}\n`, leave: (page) => page.keyboard.type('\n') },
};

const untilBuffer = (page, type) =>
  until(`the ${type} screen`, () =>
    page.evaluate((expected) => globalThis.visibleTerminal().buffer.active.type === expected, type),
  );

check('display/leaving_an_editor_restores_every_cell', async (t) => {
  const name = findProgram('vim') ? 'vim' : 'stand_in';
  const { command, add, leave } = EDITORS[name];
  const directory = await t.tempDir();
  const file = join(directory, 'letter');
  await writeFile(file, 'the first line\n');
  await writeFile(join(directory, 'stand-in'), STAND_IN);
  const server = await Outlive.start(t);
  const page = await openPage(t, server.link);
  await startShell(page, 'work');
  const terminal = page.getByTestId('terminal');
  await page.keyboard.type(`cd ${directory}; HOME=${directory}; `);
  await page.keyboard.type(`printf '\\e[3%d;4%dm%s\\e[0m 漢字 \\e[7me\\u0301\\e[0m\\n' 1 2 one 3 4 two 5 6 th''ree\n`);
  await untilShown(terminal, 'three');
  await page.keyboard.type(`${command} letter`);
  await untilShown(terminal, `${command} letter`);
  const before = await readCells(page);

  await page.keyboard.press('Enter');
  await untilBuffer(page, 'alternate');
  await untilShown(terminal, 'the first line');
  await page.keyboard.type(add);
  await untilShown(terminal, ADDED);
  const late = await openPage(t, server.link);
  await late.getByTestId('process').getByText('work', { exact: true }).click();
  await untilBuffer(late, 'alternate');
  await untilShown(late.getByTestId('terminal'), ADDED);

  await leave(page);
  for (const one of [page, late]) {
    await untilBuffer(one, 'normal');
    const row = before.cursor[1] + 1;
    await until('the prompt', async () => (await readCells(one)).lines[row]?.text.startsWith(PROMPT));
    const after = await readCells(one);
    const description = one === page ? 'earlier lines' : 'earlier lines in the page that attached late';
    assertSameCells({ lines: after.lines.slice(0, row) }, { lines: before.lines.slice(0, row) }, description);
    assert.deepEqual(after.cursor, [PROMPT.length + 1, row]);
    const below = after.lines
      .slice(row + 1)
      .map(({ text }) => text.trim())
      .join('');
    assert.equal(below, '', 'the lines below the prompt are empty');
  }
  const cells = await readCells(page);
  assertSameCells(cells, await renderCells(await readAllOutput(server, 'tag:work'), cells), 'the terminal afterwards');
  assertSameCells(await readCells(late), cells, 'the page that attached late');
  assert.equal(await readFile(file, 'utf8').then((text) => text.trimEnd().split('\n').at(-1)), ADDED);
  t.measured.push(name);
  await page.assertNoErrors();
});
