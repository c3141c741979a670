// The console in the hands of another site: it cannot be framed, and a link that leaked opens nothing there.

import assert from 'node:assert/strict';
import { typeInto, untilShown } from '../../console.mjs';
import { FOREIGN_NAME } from '../../chromium.mjs';
import { check } from '../../frame.mjs';
import { Outlive } from '../../outlive.mjs';
import { openSite } from '../../attacker/site.mjs';
import { openShown } from '../../shown/console.mjs';
import { until } from '../../until.mjs';

/** Frames an address, and says what became of it when it has loaded. */
async function framed(page, address) {
  await page.evaluate(
    (src) =>
      new Promise((resolve) => {
        const frame = document.createElement('iframe');
        frame.onload = resolve;
        frame.src = src;
        document.body.replaceChildren(frame);
      }),
    address,
  );
  // What the browser says instead of a page is put there after the load, in place of the frame that loaded.
  const look = async () => {
    const [frame] = page.mainFrame().childFrames();
    const text = await frame.evaluate(() => document.body.innerText);
    return { url: frame.url(), text, parts: await frame.locator('#console').count() };
  };
  return until('the frame shows something', async () => {
    const seen = await look().catch(() => undefined);
    return (seen?.text || seen?.parts || seen?.url === address) && seen;
  });
}

check('shown/no_other_site_frames_the_console', async (t) => {
  const server = await Outlive.start(t);
  const port = await openSite(t);
  for (const name of [FOREIGN_NAME, '127.0.0.1', 'localhost']) {
    const page = await t.page();
    await page.goto(`http://${name}:${port}/`);
    // It can frame: itself.
    assert.equal((await framed(page, `http://${name}:${port}/`)).url, `http://${name}:${port}/`);
    for (const path of ['/', '/ui', `/ui#token=${server.token}`]) {
      const { url, text, parts } = await framed(page, server.base + path);
      // The page of the browser that says so has no address of ours.
      assert.ok(!url.startsWith(server.base) && parts === 0 && /refused|blocked/.test(text), `${name} frames ${path}: ${url} ${text}`);
    }
  }
});

/** Whether a socket opens from the page, and what came through it. */
const connectFrom = (page, address) =>
  page.evaluate(
    (url) =>
      new Promise((resolve) => {
        const socket = new WebSocket(url);
        const came = [];
        socket.onmessage = ({ data }) => {
          came.push(typeof data === 'string' ? JSON.parse(data).type : 'bytes');
          if (came.length === 2) resolve(came);
        };
        socket.onclose = () => resolve(came);
      }),
    address,
  );

for (const [who, isAllowed] of Object.entries({ another_site: false, an_allowed_site: true })) {
  check(`shown/a_shared_link_in_the_hands_of_${who}`, async (t) => {
    const site = `http://${FOREIGN_NAME}:${await openSite(t)}`;
    const server = await Outlive.start(t, ...(isAllowed ? ['--allow-origin', site] : []));
    const { id } = await server.call('POST', '/v1/processes', { command: 'cat', tty: true, tag: 'shared' });
    const owner = await openShown(t, server.opened);
    await owner.getByTestId('process').getByText('shared', { exact: true }).click();
    await until('the owner is there', async () => (await server.call('GET', `/v1/processes/${id}`)).attachments === 1);
    await typeInto(owner, owner.getByTestId('terminal'), 'secret\n');
    await untilShown(owner.getByTestId('terminal'), 'secret');
    await owner.getByTestId('pane-menu').click();
    await owner.getByRole('menuitem', { name: 'Share read-only…' }).click();
    const link = await until('a link', () => owner.getByTestId('share-link').inputValue());
    const given = new URLSearchParams(new URL(link).hash.slice(1));

    const page = await t.page();
    await page.goto(`${site}/`);
    const address = `${server.base.replace('http', 'ws')}/v1/processes/${given.get('process')}/connect?role=viewer&screen=true&ticket=${given.get('ticket')}`;
    const came = await connectFrom(page, address);
    if (isAllowed) return assert.deepEqual(came, ['ready', 'repaint'], 'so the other one can fail');
    assert.deepEqual(came, [], 'what came through the socket');
    const { attachments } = await server.call('GET', `/v1/processes/${id}/attachments`);
    assert.equal(attachments.length, 1, 'who is attached');
    // It was turned away before the ticket was looked at: whom it was meant for can still use it.
    const guest = await openShown(t, link);
    await untilShown(guest.getByTestId('terminal'), 'secret');
  });
}
