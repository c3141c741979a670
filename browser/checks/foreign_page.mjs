// A page of another origin cannot read or change anything, even if it knows the token and tickets.

import assert from 'node:assert/strict';
import { attack, attackFromTop, untilBeaconsAreForbidden, VECTORS } from '../attacker/attacker.mjs';
import { openSite } from '../attacker/site.mjs';
import { FOREIGN_NAME } from '../chromium.mjs';
import { check } from '../harness.mjs';
import { SERVERS, Victim } from '../victim.mjs';

const PAGES = {
  other_port: (port) => `http://127.0.0.1:${port}/`,
  foreign_name: (port) => `http://${FOREIGN_NAME}:${port}/`,
  opaque_origin: (port) => `http://${FOREIGN_NAME}:${port}/opaque`,
};

for (const [page, address] of Object.entries(PAGES)) {
  for (const [server, args] of Object.entries(SERVERS)) {
    for (const vector of [...VECTORS, 'top']) {
      check(`foreign_page/${page}/${server}/${vector}`, (t) => checkNoEffect(t, address, args, vector));
    }
  }
}

async function checkNoEffect(t, addressAt, args, vector) {
  const victim = await Victim.start(t, ...args);
  const address = addressAt(await openSite(t));
  const target = await victim.target(victim.server.base, `${new URL(address).origin}/redirect?to=`);
  const before = await victim.server.forbiddenCount();
  const page = await t.page();
  await page.goto(address);
  const read = vector === 'top' ? await attackFromTop(page, address, target) : await attack(page, vector, target);
  if (vector === 'beacon') await untilBeaconsAreForbidden(victim.server, before);
  assert.deepEqual(read, [], 'responses that the page could read');
  await victim.assertUntouched();
  // Without this the check would also pass if the browser sent no requests.
  assert.ok((await victim.server.forbiddenCount()) > before, 'requests arrived and were rejected');
}
