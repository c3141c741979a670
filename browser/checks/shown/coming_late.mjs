// Who opens a terminal that has been there for long sees it as who was there all the time.

import assert from 'node:assert/strict';
import { check } from '../../frame.mjs';
import { Outlive } from '../../outlive.mjs';
import { assertSameCells, cellsIn } from '../../shown/cells.mjs';
import { openShown } from '../../shown/console.mjs';
import { Lines } from '../../shown/lines.mjs';
import { cellsOf, everythingPrinted } from '../../shown/reference.mjs';
import { until } from '../../until.mjs';

/** Of everything that was printed, a repaint brings along the screen and what is above it, up to 1000 lines. */
const LINES_ABOVE = 1000;

check('shown/a_terminal_that_is_opened_late_is_as_for_who_was_there', async (t) => {
  const server = await Outlive.start(t);
  const page = await openShown(t, server.opened);
  const lines = await Lines.start(t, server, page, 'long', 100);
  await lines.begin();
  await lines.untilShownBeyond(1200);
  await lines.stop();
  const size = `${(await cellsIn(page)).rows}`;
  // One that joins, and then some that are alone, and may have the size they like: what was painted for another one must not suffer from that.
  const alone = ['alone', () => page.context().close()];
  for (const [what, prepare] of [['joining', () => {}], alone, alone]) {
    await prepare();
    await until('nobody else is there', async () => (await server.call('GET', `/v1/processes/${lines.id}`)).attachments === (what === 'alone' ? 0 : 1));
    const late = await openShown(t, server.opened);
    const begun = Date.now();
    await late.getByTestId('process').getByText('long', { exact: true }).click();
    const seen = new Lines(server, late, 'long', lines.file);
    await seen.untilShown('the last was');
    t.measured.push(`${what}: shown after ${Date.now() - begun} ms`);
    await until('it has the size it had', async () => `${(await cellsIn(late)).rows}` === size);
    const cells = await cellsIn(late);
    assert.ok(cells.lines.length >= LINES_ABOVE, `${what}: ${cells.lines.length} lines`);
    const expected = await cellsOf(await everythingPrinted(server, lines.id), cells);
    expected.lines = expected.lines.slice(-cells.lines.length);
    expected.top = cells.top;
    assertSameCells(cells, expected, what);
    await late.context().close();
  }
});
