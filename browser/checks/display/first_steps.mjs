// First steps of a new user: the printed link, a shell, a resized window.

import assert from 'node:assert/strict';
import { openPage, screenText, sizeIn, startProcess, startShell, untilShown } from '../../console.mjs';
import { check, until } from '../../harness.mjs';
import { Outlive } from '../../outlive.mjs';

check('display/the_printed_link_leads_to_a_shell', async (t) => {
  const server = await Outlive.start(t);
  const page = await openPage(t, server.link);
  await startShell(page, 'first');
  const terminal = page.getByTestId('terminal');
  // Input is echoed, so only a computed result proves that the command ran.
  await page.keyboard.type('echo $((6 * 7))x\n');
  await untilShown(terminal, '42x');
  await page.keyboard.type('stty size\n');
  await untilShown(terminal, await sizeIn(page));
  await page.assertNoErrors();
});

check('display/a_program_gets_sigwinch_when_the_window_is_resized', async (t) => {
  const server = await Outlive.start(t);
  const page = await openPage(t, server.link);
  // The trap only sets a flag: some shells lose signals that arrive while a trap runs.
  const loop = 'while :; do if [ "$isNew" ]; then isNew=; echo "now $(stty size)."; fi; sleep 0.05; done';
  await startProcess(page, `exec bash -c 'trap "isNew=1" WINCH; ${loop}'`, { tag: 'sized' });
  const terminal = page.getByTestId('terminal');
  let before = await until('the terminal has the size of the page', async () => {
    const { rows, cols } = await server.call('GET', '/v1/processes/tag:sized').catch(() => ({}));
    const size = await sizeIn(page).catch(() => undefined);
    return cols > 80 && size === `${rows} ${cols}` && size;
  });
  for (const [width, height] of [
    [900, 600],
    [1300, 900],
  ]) {
    const startedAt = Date.now();
    await page.setViewportSize({ width, height });
    const size = await until(
      'the terminal has another size',
      async () => (await sizeIn(page)) !== before && sizeIn(page),
    );
    await untilShown(terminal, `now ${size}.`);
    t.measured.push(`${size.replace(' ', 'x')} after ${Date.now() - startedAt} ms`);
    before = size;
  }
  const lastLine = (await screenText(terminal)).trimEnd().split('\n').at(-1).trim();
  assert.equal(lastLine, `now ${before}.`, 'the last size that the program saw');
  await page.assertNoErrors();
});
