// Other sites can neither frame the console nor use a leaked share link.

import assert from 'node:assert/strict';
import { openSite } from '../../attacker/site.mjs';
import { FOREIGN_NAME } from '../../chromium.mjs';
import { openPage, typeInto, untilShown } from '../../console.mjs';
import { check, until } from '../../harness.mjs';
import { Outlive } from '../../outlive.mjs';

/** Loads an address in a frame and returns what the frame shows. */
async function openInFrame(page, address) {
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
  // The browser replaces a refused frame with its own error page after the load event.
  const readFrame = async () => {
    const [frame] = page.mainFrame().childFrames();
    const text = await frame.evaluate(() => document.body.innerText);
    return { url: frame.url(), text, parts: await frame.locator('#console').count() };
  };
  return until('the frame has content', async () => {
    const content = await readFrame().catch(() => undefined);
    return (content?.text || content?.parts || content?.url === address) && content;
  });
}

check('display/other_sites_cannot_frame_the_console', async (t) => {
  const server = await Outlive.start(t);
  const port = await openSite(t);
  for (const name of [FOREIGN_NAME, '127.0.0.1', 'localhost']) {
    const page = await t.page();
    await page.goto(`http://${name}:${port}/`);
    // The site can frame itself, so the check below can fail.
    assert.equal((await openInFrame(page, `http://${name}:${port}/`)).url, `http://${name}:${port}/`);
    for (const path of ['/', '/ui', `/ui#token=${server.token}`]) {
      const { url, text, parts } = await openInFrame(page, server.base + path);
      // The browser's error page has another URL.
      const isRefused = !url.startsWith(server.base) && parts === 0 && /refused|blocked/.test(text);
      assert.ok(isRefused, `${name} frames ${path}: ${url} ${text}`);
    }
  }
});

/** Opens a socket from the page and returns the types of the first two frames. */
const connectFrom = (page, address) =>
  page.evaluate(
    (url) =>
      new Promise((resolve) => {
        const socket = new WebSocket(url);
        const frames = [];
        socket.onmessage = ({ data }) => {
          frames.push(typeof data === 'string' ? JSON.parse(data).type : 'bytes');
          if (frames.length === 2) resolve(frames);
        };
        socket.onclose = () => resolve(frames);
      }),
    address,
  );

for (const [result, isAllowed] of Object.entries({
  is_rejected_on_another_site: false,
  works_on_an_allowed_site: true,
})) {
  check(`display/a_leaked_share_link_${result}`, async (t) => {
    const site = `http://${FOREIGN_NAME}:${await openSite(t)}`;
    const server = await Outlive.start(t, ...(isAllowed ? ['--allow-origin', site] : []));
    const { id } = await server.call('POST', '/v1/processes', { command: 'cat', tty: true, tag: 'shared' });
    const owner = await openPage(t, server.link);
    await owner.getByTestId('process').getByText('shared', { exact: true }).click();
    await until(
      'the owner is attached',
      async () => (await server.call('GET', `/v1/processes/${id}`)).attachments === 1,
    );
    await typeInto(owner, owner.getByTestId('terminal'), 'secret\n');
    await untilShown(owner.getByTestId('terminal'), 'secret');
    await owner.getByTestId('pane-menu').click();
    await owner.getByRole('menuitem', { name: 'Share read-only…' }).click();
    const link = await until('a link', () => owner.getByTestId('share-link').inputValue());
    const fragment = new URLSearchParams(new URL(link).hash.slice(1));

    const page = await t.page();
    await page.goto(`${site}/`);
    const socketPath = `/v1/processes/${fragment.get('process')}/connect`;
    const query = `role=viewer&screen=true&ticket=${fragment.get('ticket')}`;
    const frames = await connectFrom(page, `${server.base.replace('http', 'ws')}${socketPath}?${query}`);
    if (isAllowed) return assert.deepEqual(frames, ['ready', 'repaint'], 'the other check can fail');
    assert.deepEqual(frames, [], 'no frame arrives');
    const { attachments } = await server.call('GET', `/v1/processes/${id}/attachments`);
    assert.equal(attachments.length, 1, 'only the owner is attached');
    // The origin is checked before the ticket, so the intended guest can still use the link.
    const guest = await openPage(t, link);
    await untilShown(guest.getByTestId('terminal'), 'secret');
  });
}
