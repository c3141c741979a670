// The attacks of the foreign pages succeed from allowed pages. This proves that outlive, not the browser, stops them.

import assert from 'node:assert/strict';
import { attack } from '../attacker/attacker.mjs';
import { openSite } from '../attacker/site.mjs';
import { check, until } from '../harness.mjs';
import { SECRET, SERVERS, Victim } from '../victim.mjs';

/** A page whose origin the server allows, and a fresh victim. */
async function allowed(t, ...args) {
  const origin = `http://127.0.0.1:${await openSite(t)}`;
  const victim = await Victim.start(t, '--allow-origin', origin, ...args);
  const page = await t.page();
  await page.goto(`${origin}/`);
  const target = () => victim.target(victim.server.base);
  return { victim, page, target };
}

const textOf = (read) => read.map(({ text }) => text).join('\n');

for (const vector of ['fetch', 'xhr']) {
  for (const [server, args] of Object.entries(SERVERS)) {
    check(`allowed_page/${server}/${vector}_lists_reads_starts_types_and_kills`, async (t) => {
      const { victim, page, target } = await allowed(t, ...args);
      const text = textOf(await attack(page, vector, await target()));
      assert.ok(text.includes(victim.id) && text.includes(SECRET), 'the page reads');
      assert.ok(text.includes('"ticket"'), 'the page gets a ticket');
      assert.deepEqual(await victim.successfulVectors(), [vector], 'the page starts and runs commands');
      assert.ok((await victim.output()).includes(vector), 'the page types');
      assert.equal((await victim.info()).status, 'exited', 'the page kills');
    });
  }
}

check('allowed_page/token/a_wrong_token_is_rejected', async (t) => {
  const { victim, page, target } = await allowed(t);
  const read = await attack(page, 'fetch', { ...(await target()), token: 'wrong' });
  assert.deepEqual([...new Set(read.map(({ status }) => status))], [401]);
  await victim.assertUntouched();
});

for (const [server, args] of Object.entries(SERVERS)) {
  check(`allowed_page/${server}/attaches_with_its_own_ticket`, async (t) => {
    const { victim, page, target } = await allowed(t, ...args);
    const [response] = (await attack(page, 'fetch', await target(), ['ticket'])).filter(({ status }) => status === 200);
    const { ticket } = JSON.parse(response.text);
    const text = textOf(
      await attack(page, 'webSocket', { ...(await target()), tickets: { connect: ticket } }, ['input']),
    );
    assert.ok(text.includes(`?tail=1000&ticket=${ticket}`), 'the ticket is accepted');
    assert.ok(text.includes(SECRET), 'the page reads');
    assert.ok((await victim.output()).includes('webSocket'), 'the page types');
    assert.ok((await victim.info()).lastAttachAtMs, 'the attachment is recorded');
  });
}

// These vectors cannot send a token, nor JSON without a preflight. Requests with a body are refused even from allowed
// pages.
for (const vector of ['fetchNoCors', 'form', 'beacon']) {
  check(`allowed_page/no_token/${vector}_kills`, async (t) => {
    const { victim, page, target } = await allowed(t, '--no-token');
    await attack(page, vector, await target(), ['create', 'run', 'input', 'kill']);
    await until('the program has exited', async () => (await victim.info()).status === 'exited');
    assert.deepEqual(await victim.successfulVectors(), []);
  });
}

check('allowed_page/no_token/eventSource_follows_events_and_logs', async (t) => {
  const { page, target } = await allowed(t, '--no-token');
  const text = textOf(await attack(page, 'eventSource', await target()));
  // Log entries are base64; the last characters depend on the bytes that follow.
  assert.ok(text.includes(Buffer.from(SECRET).toString('base64').slice(0, 20)), text);
});

check('allowed_page/the_console_page_uses_the_api', async (t) => {
  const victim = await Victim.start(t);
  const page = await t.page();
  await page.goto(victim.server.link);
  const [document, processes] = await page.evaluate(async (token) => {
    const headers = { authorization: `Bearer ${token}` };
    const json = async (path, init) => (await fetch(path, init)).json();
    return [await json('/v1/openapi.json'), await json('/v1/processes', { headers })];
  }, victim.server.token);
  assert.equal(document.info.title, 'outlive');
  assert.equal(processes.processes[0].id, victim.id);
});
