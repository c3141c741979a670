// Two browsers with windows of different sizes at one terminal.

import assert from 'node:assert/strict';
import { openPage, openShellFromList, sizeIn, startShell, typeInto, untilShown } from '../../console.mjs';
import { assertSameCells, readCells } from '../../display/cells.mjs';
import { check, until } from '../../harness.mjs';
import { Outlive } from '../../outlive.mjs';

async function openTwo(t) {
  const server = await Outlive.start(t);
  const first = await openPage(t, server.link, { viewport: { width: 1200, height: 600 } });
  await startShell(first, 'shared');
  const second = await openPage(t, server.link, { viewport: { width: 900, height: 800 } });
  await openShellFromList(second, 'shared');
  await until(
    'both are attached',
    async () => (await server.call('GET', '/v1/processes/tag:shared')).attachments === 2,
  );
  return { server, first, second };
}

const type = (page, text) => typeInto(page, page.getByTestId('terminal'), text);
const untilPageShows = (page, text) => untilShown(page.getByTestId('terminal'), text);

/** All sizes of the terminal so far, from its recording. */
async function readSizeHistory(server) {
  const recording = await server.call('GET', '/v1/processes/tag:shared/recording');
  const events = recording
    .trim()
    .split('\n')
    .slice(1)
    .map((line) => JSON.parse(line));
  return events.filter(([, kind]) => kind === 'r').map(([, , size]) => size);
}

check('display/two_browsers_see_the_input_of_both', async (t) => {
  const { first, second } = await openTwo(t);
  await type(first, 'echo $((1000 + 1)) by the first\n');
  await type(second, 'echo $((2000 + 2)) by the second\n');
  for (const page of [first, second]) {
    await untilPageShows(page, '1001 by the first');
    await untilPageShows(page, '2002 by the second');
  }
  const areEqual = async () => JSON.stringify(await readCells(first)) === JSON.stringify(await readCells(second));
  await until('both show the same', areEqual).catch(() => {});
  assertSameCells(await readCells(second), await readCells(first), 'the second page');
  await first.assertNoErrors();
  await second.assertNoErrors();
});

const readSize = async (server) => {
  const { rows, cols } = await server.call('GET', '/v1/processes/tag:shared');
  return `${rows} ${cols}`;
};

/** Waits until the terminal and all pages have this size. */
async function untilSizeIs(size, server, ...pages) {
  const sizes = () => Promise.all([readSize(server), ...pages.map(sizeIn)]);
  await until(`all have ${size}`, async () => (await sizes()).every((one) => one === size)).catch(async (error) => {
    throw new Error(`${error.message}; the terminal and the pages have ${(await sizes()).join(', ')}`);
  });
}

const hasPaneSize = async (server) => Number((await readSize(server)).split(' ')[1]) > 100 && readSize(server);

check('display/the_size_policy_decides_the_effective_size', async (t) => {
  const { server, first, second } = await openTwo(t);
  await type(first, 'true\n');
  const ofFirst = await until('the size of the first page is effective', () => hasPaneSize(server));
  await untilSizeIs(ofFirst, server, first, second);
  await type(second, 'true\n');
  const isOther = async () => (await readSize(server)) !== ofFirst && readSize(server);
  const ofSecond = await until('the size of the second page is effective', isOther);
  await untilSizeIs(ofSecond, server, first, second);
  const [[rows, cols], [otherRows, otherCols]] = [ofFirst, ofSecond].map((size) => size.split(' ').map(Number));
  assert.ok(cols > otherCols && rows < otherRows, `${ofFirst} is wider and ${ofSecond} is higher`);
  await type(first, 'true\n');
  await untilSizeIs(ofFirst, server, first, second);
  await server.call('PATCH', '/v1/processes/tag:shared', { sizePolicy: 'smallest' });
  await untilSizeIs(`${rows} ${otherCols}`, server, first, second);
  await server.call('PATCH', '/v1/processes/tag:shared', { sizePolicy: 'largest' });
  await untilSizeIs(`${otherRows} ${cols}`, server, first, second);
  t.measured.push(`${ofFirst.replace(' ', 'x')} and ${ofSecond.replace(' ', 'x')}`);
});

/** Opens one page and waits until the terminal has its size. */
async function openOne(t) {
  const server = await Outlive.start(t);
  const page = await openPage(t, server.link, { viewport: { width: 1200, height: 600 } });
  await startShell(page, 'shared');
  await type(page, 'true\n');
  const size = await until('the size of the page is effective', () => hasPaneSize(server));
  await untilSizeIs(size, server, page);
  return { server, page, size };
}

check('display/attaching_without_typing_does_not_change_the_size', async (t) => {
  const { server, page, size } = await openOne(t);
  const sizes = await readSizeHistory(server);
  const other = await openPage(t, server.link, { viewport: { width: 1000, height: 500 } });
  await openShellFromList(other, 'shared');
  // The banner is empty, so the page is connected and would have requested a size by now.
  await other.locator('[data-testid=terminal-state]:empty').waitFor({ state: 'attached' });
  await type(page, 'echo $((3 * 1000))\n');
  await untilPageShows(other, '3000');
  assert.deepEqual(await readSizeHistory(server), sizes, 'the size history is unchanged');
  await untilSizeIs(size, server, page, other);
});

check('display/a_changed_policy_applies_to_attached_pages', async (t) => {
  const { server, page, size } = await openOne(t);
  await server.call('PATCH', '/v1/processes/tag:shared', { sizePolicy: 'fixed' });
  await page.setViewportSize({ width: 1000, height: 700 });
  await type(page, 'stty size\n');
  await untilPageShows(page, size);
  await untilSizeIs(size, server, page);
});
