// What the foreign pages try does work from where it may: the attempts are real, and their refusal is outlive's doing.

import assert from 'node:assert/strict';
import { check } from '../frame.mjs';
import { SECRET, SERVERS, Victim } from '../victim.mjs';
import { attack } from '../attacker/attacker.mjs';
import { openSite } from '../attacker/site.mjs';
import { until } from '../until.mjs';

/** A page whose origin the server allows, at a server that nobody has touched. */
async function allowed(t, ...args) {
  const origin = `http://127.0.0.1:${await openSite(t)}`;
  const victim = await Victim.start(t, '--allow-origin', origin, ...args);
  const page = await t.page();
  await page.goto(`${origin}/`);
  const target = () => victim.target(victim.server.base);
  return { victim, page, target };
}

const textOf = (read) => read.map(({ text }) => text).join('\n');

for (const way of ['fetch', 'xhr']) {
  for (const [server, args] of Object.entries(SERVERS)) {
    check(`allowed_page/${server}/${way}_lists_reads_starts_types_and_kills`, async (t) => {
      const { victim, page, target } = await allowed(t, ...args);
      const text = textOf(await attack(page, way, await target()));
      assert.ok(text.includes(victim.id) && text.includes(SECRET), 'it reads');
      assert.ok(text.includes('"ticket"'), 'it gets a ticket');
      assert.deepEqual(await victim.reached(), [way], 'it starts and runs');
      assert.ok((await victim.output()).includes(way), 'it types');
      assert.equal((await victim.info()).status, 'exited', 'it kills');
    });
  }
}

check('allowed_page/token/a_page_without_the_token_gets_nothing', async (t) => {
  const { victim, page, target } = await allowed(t);
  const read = await attack(page, 'fetch', { ...(await target()), token: 'wrong' });
  assert.deepEqual([...new Set(read.map(({ status }) => status))], [401]);
  await victim.assertUntouched();
});

for (const [server, args] of Object.entries(SERVERS)) {
  check(`allowed_page/${server}/attaches_with_a_ticket_of_its_own`, async (t) => {
    const { victim, page, target } = await allowed(t, ...args);
    const [answer] = (await attack(page, 'fetch', await target(), ['ticket'])).filter(({ status }) => status === 200);
    const { ticket } = JSON.parse(answer.text);
    const text = textOf(await attack(page, 'webSocket', { ...(await target()), tickets: { connect: ticket } }, ['input']));
    assert.ok(text.includes(`?tail=1000&ticket=${ticket}`), 'the ticket opens');
    assert.ok(text.includes(SECRET), 'it reads');
    assert.ok((await victim.output()).includes('webSocket'), 'it types');
    assert.ok((await victim.info()).lastAttachAtMs, 'the attachment is known');
  });
}

// These can show no token, and not say JSON without being asked for more: what has a body is refused even so.
for (const way of ['fetchNoCors', 'form', 'beacon']) {
  check(`allowed_page/no_token/${way}_kills`, async (t) => {
    const { victim, page, target } = await allowed(t, '--no-token');
    await attack(page, way, await target(), ['create', 'run', 'input', 'kill']);
    await until('the program has ended', async () => (await victim.info()).status === 'exited');
    assert.deepEqual(await victim.reached(), []);
  });
}

check('allowed_page/no_token/eventSource_follows', async (t) => {
  const { page, target } = await allowed(t, '--no-token');
  const text = textOf(await attack(page, 'eventSource', await target()));
  // Log entries are in base64, of which the last characters depend on what follows.
  assert.ok(text.includes(Buffer.from(SECRET).toString('base64').slice(0, 20)), text);
});

check('allowed_page/own_page_uses_the_api', async (t) => {
  const victim = await Victim.start(t);
  const page = await t.page();
  await page.goto(victim.server.opened);
  const [document, processes] = await page.evaluate(async (token) => {
    const headers = { authorization: `Bearer ${token}` };
    const json = async (path, init) => (await fetch(path, init)).json();
    return [await json('/v1/openapi.json'), await json('/v1/processes', { headers })];
  }, victim.server.token);
  assert.equal(document.info.title, 'outlive');
  assert.equal(processes.processes[0].id, victim.id);
});
