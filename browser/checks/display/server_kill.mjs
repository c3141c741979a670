// Killing the server while a terminal prints is not visible in the page.

import assert from 'node:assert/strict';
import { consoleAddress, openPage } from '../../console.mjs';
import { assertSameCells, readCells } from '../../display/cells.mjs';
import { Lines } from '../../display/lines.mjs';
import { readAllOutput, renderCells } from '../../display/reference.mjs';
import { check, until } from '../../harness.mjs';
import { Outlive } from '../../outlive.mjs';

const KILLS = 2;

check('display/a_server_killed_during_output_is_not_noticed', async (t) => {
  const server = await Outlive.start(t);
  const page = await openPage(t, consoleAddress(server));
  const lines = await Lines.start(t, server, page, 'numbered');
  await lines.begin();
  await lines.untilShownBeyond(100);
  await lines.watch();
  let maxMs = 0;
  for (let kill = 1; kill <= KILLS; kill += 1) {
    const { serverPid } = await server.call('GET', '/v1/health');
    const before = await lines.shown();
    const startedAt = Date.now();
    process.kill(serverPid, 'SIGKILL');
    const currentPid = async () => (await server.call('GET', '/v1/health').catch(() => ({}))).serverPid;
    await until('another server runs', async () => ![undefined, serverPid].includes(await currentPid()));
    // Output from before the kill may still arrive. These lines are printed long after it.
    await lines.untilShownBeyond(before + 100);
    maxMs = Math.max(maxMs, Date.now() - startedAt);
  }
  await lines.stop();
  const cells = await readCells(page);
  assertSameCells(cells, await renderCells(await readAllOutput(server, lines.id), cells), 'the terminal afterwards');
  const frames = await lines.assertNoFlash();
  assert.equal((await server.call('GET', `/v1/processes/${lines.id}`)).status, 'running');
  const shown = await lines.shown();
  t.measured.push(`${KILLS} kills`, `${shown} lines`, `${frames} frames`, `100 more lines within ${maxMs} ms`);
});
