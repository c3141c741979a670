// Two people at one terminal, in two browsers whose windows differ.

import assert from 'node:assert/strict';
import { typeInto, untilShown } from '../../console.mjs';
import { check } from '../../frame.mjs';
import { Outlive } from '../../outlive.mjs';
import { assertSameCells, cellsIn } from '../../shown/cells.mjs';
import { openShown } from '../../shown/console.mjs';
import { openFromList, sizeIn, startShell } from '../../shown/shell.mjs';
import { until } from '../../until.mjs';

async function two(t) {
  const server = await Outlive.start(t);
  const first = await openShown(t, server.opened, { viewport: { width: 1200, height: 600 } });
  await startShell(first, 'shared');
  const second = await openShown(t, server.opened, { viewport: { width: 900, height: 800 } });
  await openFromList(second, 'shared');
  await until('both are there', async () => (await server.call('GET', '/v1/processes/tag:shared')).attachments === 2);
  return { server, first, second };
}

const type = (page, text) => typeInto(page, page.getByTestId('terminal'), text);
/** All sizes that the terminal has had, as its recording has them. */
async function sizesOf(server) {
  const lines = (await server.call('GET', '/v1/processes/tag:shared/recording')).trim().split('\n').slice(1).map((line) => JSON.parse(line));
  return lines.filter(([, kind]) => kind === 'r').map(([, , size]) => size);
}

const shows = (page, text) => untilShown(page.getByTestId('terminal'), text);

check('shown/two_browsers_at_one_terminal_see_what_both_type', async (t) => {
  const { first, second } = await two(t);
  await type(first, "echo $((1000 + 1)) by the first\n");
  await type(second, "echo $((2000 + 2)) by the second\n");
  for (const page of [first, second]) {
    await shows(page, '1001 by the first');
    await shows(page, '2002 by the second');
  }
  await until('both show the same', async () => JSON.stringify(await cellsIn(first)) === JSON.stringify(await cellsIn(second))).catch(() => {});
  assertSameCells(await cellsIn(second), await cellsIn(first), 'the second');
  await first.inPeace();
  await second.inPeace();
});

const sizeOf = async (server) => {
  const { rows, cols } = await server.call('GET', '/v1/processes/tag:shared');
  return `${rows} ${cols}`;
};

/** The terminal has it, and so have all pages, whatever would fit into them. */
async function untilAll(size, server, ...pages) {
  const all = () => Promise.all([sizeOf(server), ...pages.map(sizeIn)]);
  await until(`all have ${size}`, async () => (await all()).every((one) => one === size)).catch(async (error) => {
    throw new Error(`${error.message}; the terminal and the pages have ${(await all()).join(', ')}`);
  });
}

check('shown/of_two_browsers_the_policy_says_whose_size_it_is', async (t) => {
  const { server, first, second } = await two(t);
  await type(first, 'true\n');
  const ofFirst = await until('the first has its size', async () => Number((await sizeOf(server)).split(' ')[1]) > 100 && sizeOf(server));
  await untilAll(ofFirst, server, first, second);
  await type(second, 'true\n');
  const ofSecond = await until('the second has its size', async () => (await sizeOf(server)) !== ofFirst && sizeOf(server));
  await untilAll(ofSecond, server, first, second);
  const [[rows, cols], [otherRows, otherCols]] = [ofFirst, ofSecond].map((size) => size.split(' ').map(Number));
  assert.ok(cols > otherCols && rows < otherRows, `${ofFirst} is wide and ${ofSecond} is high`);
  await type(first, 'true\n');
  await untilAll(ofFirst, server, first, second);
  await server.call('PATCH', '/v1/processes/tag:shared', { sizePolicy: 'smallest' });
  await untilAll(`${rows} ${otherCols}`, server, first, second);
  await server.call('PATCH', '/v1/processes/tag:shared', { sizePolicy: 'largest' });
  await untilAll(`${otherRows} ${cols}`, server, first, second);
  t.measured.push(`${ofFirst.replace(' ', 'x')} and ${ofSecond.replace(' ', 'x')}`);
});

/** One alone, whose terminal has settled at its size. */
async function one(t) {
  const server = await Outlive.start(t);
  const page = await openShown(t, server.opened, { viewport: { width: 1200, height: 600 } });
  await startShell(page, 'shared');
  await type(page, 'true\n');
  const size = await until('it has its size', async () => Number((await sizeOf(server)).split(' ')[1]) > 100 && sizeOf(server));
  await untilAll(size, server, page);
  return { server, page, size };
}

check('shown/who_only_comes_and_looks_changes_no_size', async (t) => {
  const { server, page, size } = await one(t);
  const sizes = await sizesOf(server);
  const other = await openShown(t, server.opened, { viewport: { width: 1000, height: 500 } });
  await openFromList(other, 'shared');
  // Its words about the connection are gone: whatever it does by itself is done.
  await other.locator('[data-testid=terminal-state]:empty').waitFor({ state: 'attached' });
  await type(page, 'echo $((3 * 1000))\n');
  await shows(other, '3000');
  assert.deepEqual(await sizesOf(server), sizes, 'sizes that it has had');
  await untilAll(size, server, page, other);
});

check('shown/a_policy_that_changes_holds_for_who_is_there', async (t) => {
  const { server, page, size } = await one(t);
  await server.call('PATCH', '/v1/processes/tag:shared', { sizePolicy: 'fixed' });
  await page.setViewportSize({ width: 1000, height: 700 });
  await type(page, 'stty size\n');
  await shows(page, size);
  await untilAll(size, server, page);
});
