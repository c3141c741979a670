// A network that is away for 20 seconds while a terminal prints.

import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { screenText, startBy, typeInto, untilShown } from '../../console.mjs';
import { check } from '../../frame.mjs';
import { Outlive } from '../../outlive.mjs';
import { Cable } from '../../shown/cable.mjs';
import { assertSameCells, cellsIn } from '../../shown/cells.mjs';
import { addressBy, openShown } from '../../shown/console.mjs';
import { Lines } from '../../shown/lines.mjs';
import { cellsOf, everythingPrinted, readAlong } from '../../shown/reference.mjs';
import { until } from '../../until.mjs';

const OUTAGE_MS = 20_000;
/** Attempts have become rare by then. */
const COMES_BACK_WITHIN_MS = 20_000;

/** Opens the console behind a cable of its own, with lines that are being printed and pictures that are looked at. */
async function printing(t, server, tag) {
  const cable = await Cable.lay(t, server);
  const page = await openShown(t, addressBy(server, cable.base));
  const lines = await Lines.start(t, server, page, tag);
  await lines.begin();
  await lines.untilShownBeyond(100);
  await lines.watch();
  return { cable, page, lines };
}

/** Both at once, for the time it takes: a cable that is pulled, and one through which nothing comes. */
check('shown/a_network_that_is_away_for_20_seconds_leaves_no_trace', async (t) => {
  const server = await Outlive.start(t);
  const pulled = await printing(t, server, 'pulled');
  const stalled = await printing(t, server, 'stalled');
  pulled.cable.pull();
  stalled.cable.stall();
  await pulled.page.getByTestId('terminal-state').getByText('Coming back by itself').waitFor();
  const before = await Promise.all([pulled.lines.shown(), stalled.lines.shown()]);
  await pause(OUTAGE_MS);
  assert.deepEqual(await Promise.all([pulled.lines.shown(), stalled.lines.shown()]), before, 'nothing came through');
  assert.ok(pulled.cable.refused > 0, 'the page tried to come back');
  pulled.cable.plugIn();
  stalled.cable.goOn();
  for (const [at, { page, lines }] of [pulled, stalled].entries()) {
    const begun = Date.now();
    await lines.untilShownBeyond(before[at] + 200, COMES_BACK_WITHIN_MS);
    const took = Date.now() - begun;
    await lines.stop();
    const cells = await cellsIn(page);
    assertSameCells(cells, await cellsOf(await everythingPrinted(server, lines.id), cells), `${lines.id} after it`);
    t.measured.push(`${lines.id.slice(4)}: back after ${took} ms`, `${(await lines.shown()) - before[at]} lines missed or later`, `${await lines.assertNoFlash()} pictures`);
  }
}, { seconds: 75 });

check('shown/what_is_gone_when_the_network_comes_back_is_painted_without_a_flash', async (t) => {
  const server = await Outlive.start(t);
  const cable = await Cable.lay(t, server);
  const page = await openShown(t, addressBy(server, cable.base));
  const lines = await Lines.startForgetful(t, server, page, 'forgetful');
  const reader = await readAlong(t, server, lines.id);
  await lines.begin();
  await lines.untilShownBeyond(100);
  await lines.watch();
  cable.pull();
  const before = await lines.shown();
  const { outputEnd } = await server.call('GET', `/v1/processes/${lines.id}`);
  await until('what the page saw last is gone', async () => (await server.call('GET', `/v1/processes/${lines.id}`)).outputStart > outputEnd, 20_000);
  cable.plugIn();
  await lines.untilShownBeyond(before + 200);
  await lines.stop();
  const cells = await cellsIn(page);
  const expected = await cellsOf(await reader.all(), cells);
  // What was above the screen begins anew with a repaint: of that the page has less.
  assert.ok(cells.lines.length >= 1000, `the page has ${cells.lines.length} lines`);
  expected.lines = expected.lines.slice(-cells.lines.length);
  expected.top = cells.top;
  assertSameCells(cells, expected, 'the terminal after it');
  t.measured.push(`${await lines.shown()} lines`, `${cells.lines.length} in the page`, `${await lines.assertNoFlash()} pictures`);
}, { seconds: 90 });

check('shown/a_lost_connection_is_no_new_size_for_the_program', async (t) => {
  const server = await Outlive.start(t);
  const cable = await Cable.lay(t, server);
  const page = await openShown(t, addressBy(server, cable.base));
  const terminal = page.getByTestId('terminal');
  await startBy(page, `exec bash -c 'while read -r word; do echo "got $word"; trap "echo now \\$(stty size)." WINCH; done'`, { tag: 'sized' });
  await typeInto(page, terminal, 'one\n');
  await untilShown(terminal, 'got one');
  cable.pull();
  await page.getByTestId('terminal-state').getByText('Coming back by itself').waitFor();
  cable.plugIn();
  await until('it is attached again', async () => (await server.call('GET', '/v1/processes/tag:sized')).attachments === 1);
  await typeInto(page, terminal, 'two\n');
  await untilShown(terminal, 'got two');
  await typeInto(page, terminal, 'three\n');
  await untilShown(terminal, 'got three');
  assert.doesNotMatch(await screenText(terminal), /now \d+ \d+/, 'sizes that the program was told');
});
