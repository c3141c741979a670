// A page that opens a terminal late shows the same as one that was attached from the start.

import assert from 'node:assert/strict';
import { openPage } from '../../console.mjs';
import { assertSameCells, readCells } from '../../display/cells.mjs';
import { Lines } from '../../display/lines.mjs';
import { readAllOutput, renderCells } from '../../display/reference.mjs';
import { check, until } from '../../harness.mjs';
import { Outlive } from '../../outlive.mjs';

/** A repaint includes the screen and up to 1000 lines above it. */
const SCROLLBACK_LINES = 1000;

check('display/a_terminal_opened_late_shows_the_same_cells', async (t) => {
  const server = await Outlive.start(t);
  const page = await openPage(t, server.link);
  const lines = await Lines.start(t, server, page, 'long', 100);
  await lines.begin();
  await lines.untilShownBeyond(1200);
  await lines.stop();
  const size = `${(await readCells(page)).rows}`;
  // First a page that joins another one. Then pages that are the only client and therefore resize the terminal, which
  // must not damage the repaint that was made for the old size.
  const only = ['only client', () => page.context().close(), 0];
  for (const [description, prepare, otherClients] of [['second client', () => {}, 1], only, only]) {
    await prepare();
    const attached = async () => (await server.call('GET', `/v1/processes/${lines.id}`)).attachments;
    await until(`${otherClients} clients are attached`, async () => (await attached()) === otherClients);
    const late = await openPage(t, server.link);
    const startedAt = Date.now();
    await late.getByTestId('process').getByText('long', { exact: true }).click();
    const lateLines = new Lines(server, late, 'long', lines.file);
    await lateLines.untilShown('the last was');
    t.measured.push(`${description}: shown after ${Date.now() - startedAt} ms`);
    await until('the size is unchanged', async () => `${(await readCells(late)).rows}` === size);
    const cells = await readCells(late);
    assert.ok(cells.lines.length >= SCROLLBACK_LINES, `${description}: ${cells.lines.length} lines`);
    const expected = await renderCells(await readAllOutput(server, lines.id), cells);
    expected.lines = expected.lines.slice(-cells.lines.length);
    expected.top = cells.top;
    assertSameCells(cells, expected, description);
    await late.context().close();
  }
});
