// A server that is killed while a terminal prints: nobody can tell from the page.

import assert from 'node:assert/strict';
import { check } from '../../frame.mjs';
import { Outlive } from '../../outlive.mjs';
import { assertSameCells, cellsIn } from '../../shown/cells.mjs';
import { addressBy, openShown } from '../../shown/console.mjs';
import { Lines } from '../../shown/lines.mjs';
import { cellsOf, everythingPrinted } from '../../shown/reference.mjs';
import { until } from '../../until.mjs';

const DEATHS = 2;

check('shown/a_server_killed_during_output_is_not_noticed', async (t) => {
  const server = await Outlive.start(t);
  const page = await openShown(t, addressBy(server, server.base));
  const lines = await Lines.start(t, server, page, 'numbered');
  await lines.begin();
  await lines.untilShownBeyond(100);
  await lines.watch();
  let longest = 0;
  for (let death = 1; death <= DEATHS; death += 1) {
    const { serverPid } = await server.call('GET', '/v1/health');
    const before = await lines.shown();
    const begun = Date.now();
    process.kill(serverPid, 'SIGKILL');
    const isReplaced = async () => ![undefined, serverPid].includes((await server.call('GET', '/v1/health').catch(() => ({}))).serverPid);
    await until('another server is there', isReplaced);
    // What was printed before its death may still come: what is asked for here was printed long after it.
    await lines.untilShownBeyond(before + 100);
    longest = Math.max(longest, Date.now() - begun);
  }
  await lines.stop();
  const cells = await cellsIn(page);
  assertSameCells(cells, await cellsOf(await everythingPrinted(server, lines.id), cells), 'the terminal after it');
  const pictures = await lines.assertNoFlash();
  assert.equal((await server.call('GET', `/v1/processes/${lines.id}`)).status, 'running');
  t.measured.push(`${DEATHS} deaths`, `${await lines.shown()} lines`, `${pictures} pictures`, `at most ${longest} ms until 100 more lines were shown`);
});
