// DNS rebinding: the name of the attacker's page resolves to outlive. To the browser it is the same origin, so only the
// Host header reveals it.

import assert from 'node:assert/strict';
import { attack, attackFromTop, untilBeaconsAreForbidden, VECTORS } from '../attacker/attacker.mjs';
import { PAGE } from '../attacker/site.mjs';
import { FOREIGN_NAME } from '../chromium.mjs';
import { check } from '../harness.mjs';
import { SERVERS, Victim } from '../victim.mjs';

for (const [server, args] of Object.entries(SERVERS)) {
  // With a redirect the page is foreign, which foreign_page.mjs checks.
  for (const vector of [...VECTORS.filter((name) => !name.endsWith('Redirected')), 'top']) {
    check(`rebinding/${server}/${vector}`, (t) => checkNoEffect(t, args, vector));
  }
}

async function checkNoEffect(t, args, vector) {
  const victim = await Victim.start(t, ...args);
  const base = `http://${FOREIGN_NAME}:${victim.server.port}`;
  const target = await victim.target(base);
  const before = await victim.server.forbiddenCount();
  const page = await t.page();
  const address = `${base}/cats`;
  // The page comes from the attacker, before the name is rebound. All other requests go to outlive.
  await page.route(address, (route) => route.fulfill({ contentType: 'text/html', body: PAGE }));
  await page.goto(address);
  if (vector !== 'top') await page.unroute(address);
  const read = vector === 'top' ? await attackFromTop(page, address, target) : await attack(page, vector, target);
  if (vector === 'beacon') await untilBeaconsAreForbidden(victim.server, before);
  for (const { status, text } of read) {
    assert.match(text, /"code":\s*"host_not_allowed"/, 'responses that the page could read');
    assert.ok(status === 403 || status === null, `${status}`);
  }
  if (['fetch', 'fetchNoCors', 'xhr'].includes(vector))
    assert.ok(read.length > 0, 'a page of the same origin reads responses');
  await victim.assertUntouched();
  assert.ok((await victim.server.forbiddenCount()) > before, 'requests arrived and were rejected');
}
