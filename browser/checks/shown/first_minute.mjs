// The first minute with outlive: the address that was printed, a shell, a window of another size.

import assert from 'node:assert/strict';
import { screenText, startBy, untilShown } from '../../console.mjs';
import { check } from '../../frame.mjs';
import { Outlive } from '../../outlive.mjs';
import { openShown } from '../../shown/console.mjs';
import { sizeIn, startShell } from '../../shown/shell.mjs';
import { until } from '../../until.mjs';

check('shown/the_printed_address_leads_to_a_shell', async (t) => {
  const server = await Outlive.start(t);
  const page = await openShown(t, server.opened);
  await startShell(page, 'first');
  const terminal = page.getByTestId('terminal');
  // What is typed is echoed too: only what was worked out proves that it ran.
  await page.keyboard.type('echo $((6 * 7))x\n');
  await untilShown(terminal, '42x');
  await page.keyboard.type('stty size\n');
  await untilShown(terminal, await sizeIn(page));
  await page.inPeace();
});

check('shown/a_program_is_told_when_the_window_gets_another_size', async (t) => {
  const server = await Outlive.start(t);
  const page = await openShown(t, server.opened);
  // The trap itself only notes it: what comes while a trap runs is lost to some shells.
  await startBy(page, `exec bash -c 'trap "isNew=1" WINCH; while :; do if [ "$isNew" ]; then isNew=; echo "now $(stty size)."; fi; sleep 0.05; done'`, { tag: 'sized' });
  const terminal = page.getByTestId('terminal');
  let before = await until('it has the size of the page', async () => {
    const { rows, cols } = await server.call('GET', '/v1/processes/tag:sized').catch(() => ({}));
    const size = await sizeIn(page).catch(() => undefined);
    return cols > 80 && size === `${rows} ${cols}` && size;
  });
  for (const [width, height] of [[900, 600], [1300, 900]]) {
    const begun = Date.now();
    await page.setViewportSize({ width, height });
    const size = await until('the terminal has another size', async () => (await sizeIn(page)) !== before && sizeIn(page));
    await untilShown(terminal, `now ${size}.`);
    t.measured.push(`${size.replace(' ', 'x')} known after ${Date.now() - begun} ms`);
    before = size;
  }
  assert.equal((await screenText(terminal)).trimEnd().split('\n').at(-1).trim(), `now ${before}.`, 'the last it was told');
  await page.inPeace();
});
