// A network outage of 20 seconds while a terminal prints.

import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { consoleAddress, openPage, screenText, startProcess, typeInto, untilShown } from '../../console.mjs';
import { assertSameCells, readCells } from '../../display/cells.mjs';
import { FlakyProxy } from '../../display/flaky_proxy.mjs';
import { Lines } from '../../display/lines.mjs';
import { followOutput, readAllOutput, renderCells } from '../../display/reference.mjs';
import { check, until } from '../../harness.mjs';
import { Outlive } from '../../outlive.mjs';

const OUTAGE_MS = 20_000;
/** The backoff between attempts has grown by then. */
const RECONNECT_TIMEOUT_MS = 20_000;

/** Opens the console through its own proxy, starts to print lines and to check every frame. */
async function printing(t, server, tag) {
  const proxy = await FlakyProxy.start(t, server);
  const page = await openPage(t, consoleAddress(server, proxy.base));
  const lines = await Lines.start(t, server, page, tag);
  await lines.begin();
  await lines.untilShownBeyond(100);
  await lines.watch();
  return { proxy, page, lines };
}

/** Both failures at once, to save time: closed connections, and connections that forward nothing. */
check(
  'display/a_network_outage_of_20_seconds_leaves_no_trace',
  async (t) => {
    const server = await Outlive.start(t);
    const disconnected = await printing(t, server, 'disconnected');
    const stalled = await printing(t, server, 'stalled');
    disconnected.proxy.disconnect();
    stalled.proxy.stall();
    await disconnected.page.getByTestId('terminal-state').getByText('Reconnecting…').waitFor();
    const shown = () => Promise.all([disconnected.lines.shown(), stalled.lines.shown()]);
    const before = await shown();
    await pause(OUTAGE_MS);
    assert.deepEqual(await shown(), before, 'nothing arrives during the outage');
    assert.ok(disconnected.proxy.refused > 0, 'the page tries to reconnect');
    disconnected.proxy.reconnect();
    stalled.proxy.resume();
    for (const [index, { page, lines }] of [disconnected, stalled].entries()) {
      const startedAt = Date.now();
      await lines.untilShownBeyond(before[index] + 200, RECONNECT_TIMEOUT_MS);
      const elapsed = Date.now() - startedAt;
      await lines.stop();
      const cells = await readCells(page);
      assertSameCells(cells, await renderCells(await readAllOutput(server, lines.id), cells), `${lines.id} afterwards`);
      t.measured.push(
        `${lines.id.slice(4)}: back after ${elapsed} ms`,
        `${(await lines.shown()) - before[index]} lines during and after the outage`,
        `${await lines.assertNoFlash()} frames`,
      );
    }
  },
  { seconds: 75 },
);

check(
  'display/output_lost_during_an_outage_is_repainted_without_a_flash',
  async (t) => {
    const server = await Outlive.start(t);
    const proxy = await FlakyProxy.start(t, server);
    const page = await openPage(t, consoleAddress(server, proxy.base));
    const lines = await Lines.startWithSmallLog(t, server, page, 'small-log');
    const reader = await followOutput(t, server, lines.id);
    await lines.begin();
    await lines.untilShownBeyond(100);
    await lines.watch();
    proxy.disconnect();
    const before = await lines.shown();
    const { outputEnd } = await server.call('GET', `/v1/processes/${lines.id}`);
    const outputStart = async () => (await server.call('GET', `/v1/processes/${lines.id}`)).outputStart;
    await until(
      'the last output in the page is gone from the log',
      async () => (await outputStart()) > outputEnd,
      20_000,
    );
    proxy.reconnect();
    await lines.untilShownBeyond(before + 200);
    await lines.stop();
    const cells = await readCells(page);
    const expected = await renderCells(await reader.all(), cells);
    // The repaint replaced the scrollback, so the page has fewer lines than the reference.
    assert.ok(cells.lines.length >= 1000, `the page has ${cells.lines.length} lines`);
    expected.lines = expected.lines.slice(-cells.lines.length);
    expected.top = cells.top;
    assertSameCells(cells, expected, 'the terminal afterwards');
    const frames = await lines.assertNoFlash();
    t.measured.push(`${await lines.shown()} lines`, `${cells.lines.length} in the page`, `${frames} frames`);
  },
  { seconds: 90 },
);

check('display/a_lost_connection_does_not_resize_the_terminal', async (t) => {
  const server = await Outlive.start(t);
  const proxy = await FlakyProxy.start(t, server);
  const page = await openPage(t, consoleAddress(server, proxy.base));
  const terminal = page.getByTestId('terminal');
  await startProcess(
    page,
    `exec bash -c 'while read -r word; do echo "got $word"; trap "echo now \\$(stty size)." WINCH; done'`,
    { tag: 'sized' },
  );
  await typeInto(page, terminal, 'one\n');
  await untilShown(terminal, 'got one');
  proxy.disconnect();
  await page.getByTestId('terminal-state').getByText('Reconnecting…').waitFor();
  proxy.reconnect();
  await until(
    'the terminal is attached again',
    async () => (await server.call('GET', '/v1/processes/tag:sized')).attachments === 1,
  );
  await typeInto(page, terminal, 'two\n');
  await untilShown(terminal, 'got two');
  await typeInto(page, terminal, 'three\n');
  await untilShown(terminal, 'got three');
  assert.doesNotMatch(await screenText(terminal), /now \d+ \d+/, 'the program got no SIGWINCH');
});
