// The documentation, opened by a person.

import assert from 'node:assert/strict';
import { check } from '../frame.mjs';
import { Outlive } from '../outlive.mjs';

/** Opens the page and collects what a person would not see. */
async function open(t, server) {
  const page = await t.page({ viewport: { width: 1100, height: 800 } });
  const seen = { complaints: [], hosts: new Set() };
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && seen.complaints.push(message.text()));
  page.on('pageerror', (error) => seen.complaints.push(error.message));
  page.on('request', (request) => seen.hosts.add(new URL(request.url()).host));
  await page.addInitScript(() => {
    globalThis.violations = [];
    document.addEventListener('securitypolicyviolation', (event) => globalThis.violations.push(event.violatedDirective));
  });
  await page.goto(new URL('/docs', server.opened).href + new URL(server.opened).hash);
  await page.locator('details.call').first().waitFor();
  return { page, seen };
}

const operations = (document) => Object.values(document.paths).flatMap((methods) => Object.keys(methods)).length;

check('docs_page/it_shows_every_call', async (t) => {
  const server = await Outlive.start(t);
  const { page, seen } = await open(t, server);
  assert.equal(new URL(page.url()).pathname, '/docs');
  const calls = page.locator('details.call');
  assert.equal(await calls.count(), operations(await server.call('GET', '/v1/openapi.json')));
  assert.ok(await calls.filter({ hasText: '/v1/processes/run' }).first().isVisible());
  const picture = process.env.OUTLIVE_BROWSER_SCREENSHOT;
  if (picture) await page.screenshot({ path: picture });
  assert.deepEqual(seen.complaints, [], 'the console');
  assert.deepEqual(await page.evaluate(() => globalThis.violations), [], 'violations of the content security policy');
  assert.deepEqual([...seen.hosts], [new URL(server.base).host], 'hosts that were asked');
});

check('docs_page/the_filter_leaves_what_fits', async (t) => {
  const { page } = await open(t, await Outlive.start(t));
  await page.getByLabel('Filter').fill('kill post');
  const visible = await page.locator('details.call:visible').allInnerTexts();
  assert.ok(visible.length > 0 && visible.every((text) => /kill/i.test(text)), visible.join(' | '));
});

check('docs_page/a_call_unfolds_to_its_fields', async (t) => {
  const { page } = await open(t, await Outlive.start(t));
  const call = page.locator('details.call').filter({ hasText: '/v1/tickets' });
  await call.locator('summary').click();
  await call.getByText('processId', { exact: true }).waitFor();
});
