// The API documentation at /docs.

import assert from 'node:assert/strict';
import { check } from '../harness.mjs';
import { Outlive } from '../outlive.mjs';

/** Opens the page and collects errors and requested hosts. */
async function open(t, server) {
  const page = await t.page({ viewport: { width: 1100, height: 800 } });
  const seen = { errors: [], hosts: new Set() };
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && seen.errors.push(message.text()));
  page.on('pageerror', (error) => seen.errors.push(error.message));
  page.on('request', (request) => seen.hosts.add(new URL(request.url()).host));
  await page.addInitScript(() => {
    globalThis.violations = [];
    document.addEventListener('securitypolicyviolation', (event) =>
      globalThis.violations.push(event.violatedDirective),
    );
  });
  await page.goto(new URL('/docs', server.link).href + new URL(server.link).hash);
  await page.locator('details.call').first().waitFor();
  return { page, seen };
}

const operations = (document) => Object.values(document.paths).flatMap((methods) => Object.keys(methods)).length;

check('docs_page/every_operation_is_listed', async (t) => {
  const server = await Outlive.start(t);
  const { page, seen } = await open(t, server);
  assert.equal(new URL(page.url()).pathname, '/docs');
  const calls = page.locator('details.call');
  assert.equal(await calls.count(), operations(await server.call('GET', '/v1/openapi.json')));
  assert.ok(await calls.filter({ hasText: '/v1/processes/run' }).first().isVisible());
  const screenshot = process.env.OUTLIVE_BROWSER_SCREENSHOT;
  if (screenshot) await page.screenshot({ path: screenshot });
  assert.deepEqual(seen.errors, [], 'errors in the browser console');
  assert.deepEqual(await page.evaluate(() => globalThis.violations), [], 'content security policy violations');
  assert.deepEqual([...seen.hosts], [new URL(server.base).host], 'requested hosts');
});

check('docs_page/the_filter_hides_other_operations', async (t) => {
  const { page } = await open(t, await Outlive.start(t));
  await page.getByLabel('Filter').fill('kill post');
  const visible = await page.locator('details.call:visible').allInnerTexts();
  assert.ok(visible.length > 0 && visible.every((text) => /kill/i.test(text)), visible.join(' | '));
});

check('docs_page/an_operation_expands_to_its_fields', async (t) => {
  const { page } = await open(t, await Outlive.start(t));
  const call = page.locator('details.call').filter({ hasText: 'post/v1/tickets' });
  await call.locator('summary').click();
  await call.getByText('processId', { exact: true }).waitFor();
});
