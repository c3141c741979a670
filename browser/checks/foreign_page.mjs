// A page of another origin reaches nothing, with or without a token at the server, even if it knows token and tickets.

import assert from 'node:assert/strict';
import { FOREIGN_NAME } from '../chromium.mjs';
import { check } from '../frame.mjs';
import { SERVERS, Victim } from '../victim.mjs';
import { WAYS, attack, attackFromTop, untilBeaconsAreForbidden } from '../attacker/attacker.mjs';
import { openSite } from '../attacker/site.mjs';

const PAGES = {
  other_port: (port) => `http://127.0.0.1:${port}/`,
  foreign_name: (port) => `http://${FOREIGN_NAME}:${port}/`,
  opaque_origin: (port) => `http://${FOREIGN_NAME}:${port}/opaque`,
};

for (const [page, address] of Object.entries(PAGES)) {
  for (const [server, args] of Object.entries(SERVERS)) {
    for (const way of [...WAYS, 'top']) {
      check(`foreign_page/${page}/${server}/${way}`, (t) => reachesNothing(t, address, args, way));
    }
  }
}

async function reachesNothing(t, addressAt, args, way) {
  const victim = await Victim.start(t, ...args);
  const address = addressAt(await openSite(t));
  const target = await victim.target(victim.server.base, `${new URL(address).origin}/redirect?to=`);
  const before = await victim.server.forbidden();
  const page = await t.page();
  await page.goto(address);
  const read = way === 'top' ? await attackFromTop(page, address, target) : await attack(page, way, target);
  if (way === 'beacon') await untilBeaconsAreForbidden(victim.server, before);
  assert.deepEqual(read, [], 'what the page could read');
  await victim.assertUntouched();
  // Nothing is proven by requests that the browser did not send.
  assert.ok((await victim.server.forbidden()) > before, 'requests came and were turned away');
}
