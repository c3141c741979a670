// Who may only look cannot type, whatever the page does about it.

import assert from 'node:assert/strict';
import { typeInto, untilShown } from '../../console.mjs';
import { check } from '../../frame.mjs';
import { Outlive } from '../../outlive.mjs';
import { addressBy, openShown } from '../../shown/console.mjs';
import { until } from '../../until.mjs';

const TYPED = 'typed by who may not';

/** A shared link, as the dialog makes it. */
async function linkTo(page) {
  await page.getByTestId('pane-menu').click();
  await page.getByRole('menuitem', { name: 'Share read-only…' }).click();
  const link = await until('a link', () => page.getByTestId('share-link').inputValue());
  await page.keyboard.press('Escape');
  return link;
}

/** A terminal on which everything that arrives is shown, at a server with somebody who has opened it and sees it. */
async function shared(t) {
  const server = await Outlive.start(t);
  const { id } = await server.call('POST', '/v1/processes', { command: 'cat', tty: true, tag: 'shown' });
  const owner = await openShown(t, server.opened);
  await owner.getByTestId('process').getByText('shown', { exact: true }).click();
  await until('the owner is there', async () => (await server.call('GET', `/v1/processes/${id}`)).attachments === 1);
  return { server, id, owner };
}

/** By keys, by a paste, and past what the page itself forbids. */
async function tryToType(page) {
  await typeInto(page, page.getByTestId('terminal'), `${TYPED} by keys\n`);
  await page.evaluate((text) => {
    const terminal = globalThis.shownTerminal();
    terminal.paste(`${text} by paste\n`);
    terminal.input(`${text} by input\n`, true);
    terminal.options.disableStdin = false;
    terminal.input(`${text} by force\n`, true);
    terminal.resize(33, 11);
  }, TYPED);
}

async function assertNothingCame({ server, id, owner }, page) {
  // What comes later than all of it has arrived: nothing of it is still under way.
  await typeInto(owner, owner.getByTestId('terminal'), 'by the owner\n');
  await untilShown(page.getByTestId('terminal'), 'by the owner');
  assert.equal(await server.call('GET', `/v1/processes/${id}/output?from=0`), 'by the owner\r\nby the owner\r\n');
  const { cols, rows } = await server.call('GET', `/v1/processes/${id}`);
  assert.notDeepEqual([cols, rows], [33, 11], 'the size');
}

check('shown/a_guest_with_a_link_cannot_type', async (t) => {
  const all = await shared(t);
  const guest = await openShown(t, await linkTo(all.owner));
  await guest.getByTestId('state').getByText('live').waitFor();
  await tryToType(guest);
  await assertNothingCame(all, guest);
});

check('shown/a_token_that_reads_cannot_type', async (t) => {
  const all = await shared(t);
  const { token } = await all.server.call('POST', '/v1/tokens', { name: 'reader', scope: 'read' });
  const reader = await openShown(t, addressBy({ token }, all.server.base), { refusals: [403] });
  await reader.getByTestId('process').getByText('shown', { exact: true }).click();
  await reader.getByText('read-only', { exact: true }).waitFor();
  await tryToType(reader);
  await assertNothingCame(all, reader);
});

// A page of the console's own origin, without the console: what a changed script could do.
check('shown/a_socket_that_only_looks_cannot_type', async (t) => {
  const all = await shared(t);
  const guest = await openShown(t, await linkTo(all.owner));
  await guest.getByTestId('state').getByText('live').waitFor();
  for (const [role, expected] of Object.entries({ writer: [1006], viewer: ['ready', 'error', 'error', 'error'] })) {
    const { ticket } = await all.server.call('POST', '/v1/tickets', { processId: all.id, role: 'viewer' });
    const told = await guest.evaluate(typeByHand, [`/v1/processes/${all.id}/connect?role=${role}&ticket=${ticket}`, `${TYPED} by hand\n`]);
    assert.deepEqual(told.map((frame) => frame.type ?? frame), expected, `as a ${role}: ${JSON.stringify(told)}`);
  }
  await assertNothingCame(all, guest);
  assert.equal((await all.server.call('GET', `/v1/processes/${all.id}`)).status, 'running');
});

/** What the server says to everything that a writer could send, or the code of its close. */
function typeByHand([path, text]) {
  return new Promise((resolve) => {
    const frames = [];
    const socket = new WebSocket(path);
    const everything = [new TextEncoder().encode(text), JSON.stringify({ type: 'input', data: text }), JSON.stringify({ type: 'signal', signal: 'SIGKILL' })];
    socket.onmessage = ({ data }) => {
      if (typeof data !== 'string') return;
      frames.push(JSON.parse(data));
      if (frames.length === 1) everything.forEach((frame) => socket.send(frame));
      if (frames.length === 4) resolve(frames);
    };
    socket.onclose = ({ code }) => resolve([...frames, code]);
  });
}
