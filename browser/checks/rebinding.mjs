// A page whose own name leads to outlive: to the browser it is of the same origin, so only the Host tells it apart.

import assert from 'node:assert/strict';
import { FOREIGN_NAME } from '../chromium.mjs';
import { check } from '../frame.mjs';
import { SERVERS, Victim } from '../victim.mjs';
import { WAYS, attack, attackFromTop, untilBeaconsAreForbidden } from '../attacker/attacker.mjs';
import { PAGE } from '../attacker/site.mjs';

for (const [server, args] of Object.entries(SERVERS)) {
  // A redirect would make the page foreign, which is looked at elsewhere.
  for (const way of [...WAYS.filter((name) => !name.endsWith('Redirected')), 'top']) {
    check(`rebinding/${server}/${way}`, (t) => reachesNothing(t, args, way));
  }
}

async function reachesNothing(t, args, way) {
  const victim = await Victim.start(t, ...args);
  const base = `http://${FOREIGN_NAME}:${victim.server.port}`;
  const target = await victim.target(base);
  const before = await victim.server.forbidden();
  const page = await t.page();
  const address = `${base}/cats`;
  // While the name still led to the attacker, it gave this page. All else goes where the name leads now.
  await page.route(address, (route) => route.fulfill({ contentType: 'text/html', body: PAGE }));
  await page.goto(address);
  if (way !== 'top') await page.unroute(address);
  const read = way === 'top' ? await attackFromTop(page, address, target) : await attack(page, way, target);
  if (way === 'beacon') await untilBeaconsAreForbidden(victim.server, before);
  for (const { status, text } of read) {
    assert.match(text, /"code":\s*"host_not_allowed"/, 'what the page could read');
    assert.ok(status === 403 || status === null, `${status}`);
  }
  if (['fetch', 'fetchNoCors', 'xhr'].includes(way)) assert.ok(read.length > 0, 'a page of the same origin reads answers');
  await victim.assertUntouched();
  assert.ok((await victim.server.forbidden()) > before, 'requests came and were turned away');
}
