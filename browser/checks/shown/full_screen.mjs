// A program that takes the whole screen gives it back as it was, also to somebody who came in the meantime.

import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { untilShown } from '../../console.mjs';
import { check } from '../../frame.mjs';
import { Outlive } from '../../outlive.mjs';
import { findProgram } from '../../programs.mjs';
import { assertSameCells, cellsIn } from '../../shown/cells.mjs';
import { openShown } from '../../shown/console.mjs';
import { PROMPT, startShell } from '../../shown/shell.mjs';
import { cellsOf, everythingPrinted } from '../../shown/reference.mjs';
import { until } from '../../until.mjs';

const ADDED = 'and this was added';

/** Where there is no vim: as much of an editor as is needed. */
const STAND_IN = `printf '\\e[?1049h\\e[H\\e[2J\\e[44m%s\\e[0m\\r\\n' "$(cat "$1")"; read -r text; printf '%s' "$text" >> "$1"; read -r leave; printf '\\e[?1049l'`;

const EDITORS = {
  vim: { command: 'vim', add: `o${ADDED}`, leave: async (page) => (await page.keyboard.press('Escape'), page.keyboard.type(':wq\n')) },
  stand_in: { command: 'bash stand-in', add: `${ADDED}\n`, leave: (page) => page.keyboard.type('\n') },
};

const untilBuffer = (page, type) => until(`the ${type} screen`, () => page.evaluate((wanted) => globalThis.shownTerminal().buffer.active.type === wanted, type));

check('shown/an_editor_gives_the_screen_back_cell_for_cell', async (t) => {
  const name = findProgram('vim') ? 'vim' : 'stand_in';
  const { command, add, leave } = EDITORS[name];
  const folder = await t.folder();
  const file = join(folder, 'letter');
  await writeFile(file, 'the first line\n');
  await writeFile(join(folder, 'stand-in'), STAND_IN);
  const server = await Outlive.start(t);
  const page = await openShown(t, server.opened);
  await startShell(page, 'work');
  const terminal = page.getByTestId('terminal');
  await page.keyboard.type(`cd ${folder}; HOME=${folder}; printf '\\e[3%d;4%dm%s\\e[0m 漢字 \\e[7me\\u0301\\e[0m\\n' 1 2 one 3 4 two 5 6 th''ree\n`);
  await untilShown(terminal, 'three');
  await page.keyboard.type(`${command} letter`);
  await untilShown(terminal, `${command} letter`);
  const before = await cellsIn(page);

  await page.keyboard.press('Enter');
  await untilBuffer(page, 'alternate');
  await untilShown(terminal, 'the first line');
  await page.keyboard.type(add);
  await untilShown(terminal, ADDED);
  const late = await openShown(t, server.opened);
  await late.getByTestId('process').getByText('work', { exact: true }).click();
  await untilBuffer(late, 'alternate');
  await untilShown(late.getByTestId('terminal'), ADDED);

  await leave(page);
  for (const one of [page, late]) {
    await untilBuffer(one, 'normal');
    const row = before.cursor[1] + 1;
    await until('the prompt', async () => (await cellsIn(one)).lines[row]?.text.startsWith(PROMPT));
    const after = await cellsIn(one);
    assertSameCells({ lines: after.lines.slice(0, row) }, { lines: before.lines.slice(0, row) }, one === page ? 'what was there before' : 'what was there before, for who came later');
    assert.deepEqual(after.cursor, [PROMPT.length + 1, row]);
    assert.deepEqual(after.lines.slice(row + 1).map(({ text }) => text.trim()).join(''), '', 'nothing of it is left below');
  }
  const cells = await cellsIn(page);
  assertSameCells(cells, await cellsOf(await everythingPrinted(server, 'tag:work'), cells), 'the terminal after it');
  assertSameCells(await cellsIn(late), cells, 'the same for who came later');
  assert.equal(await readFile(file, 'utf8').then((text) => text.trimEnd().split('\n').at(-1)), ADDED);
  t.measured.push(name);
  await page.inPeace();
});
