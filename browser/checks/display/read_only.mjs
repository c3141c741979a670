// Read-only clients cannot type, even if they change the page's script.

import assert from 'node:assert/strict';
import { consoleAddress, openPage, typeInto, untilShown } from '../../console.mjs';
import { check, until } from '../../harness.mjs';
import { Outlive } from '../../outlive.mjs';

const TYPED = 'typed without permission';

/** Creates a share link with the dialog. */
async function createShareLink(page) {
  await page.getByTestId('pane-menu').click();
  await page.getByRole('menuitem', { name: 'Share read-only…' }).click();
  const link = await until('a link', () => page.getByTestId('share-link').inputValue());
  await page.keyboard.press('Escape');
  return link;
}

/** Starts a terminal that echoes all input, and opens it in the owner's page. */
async function startShared(t) {
  const server = await Outlive.start(t);
  const { id } = await server.call('POST', '/v1/processes', { command: 'cat', tty: true, tag: 'shown' });
  const owner = await openPage(t, server.link);
  await owner.getByTestId('process').getByText('shown', { exact: true }).click();
  await until('the owner is attached', async () => (await server.call('GET', `/v1/processes/${id}`)).attachments === 1);
  return { server, id, owner };
}

/** By keys, by paste, and with the page's own protection disabled. */
async function tryToType(page) {
  await typeInto(page, page.getByTestId('terminal'), `${TYPED} by keys\n`);
  await page.evaluate((text) => {
    const terminal = globalThis.visibleTerminal();
    terminal.paste(`${text} by paste\n`);
    terminal.input(`${text} by input\n`, true);
    terminal.options.disableStdin = false;
    terminal.input(`${text} by force\n`, true);
    terminal.resize(33, 11);
  }, TYPED);
}

async function assertNothingTyped({ server, id, owner }, page) {
  // When later input of the owner has arrived, nothing of the attempts is still in flight.
  await typeInto(owner, owner.getByTestId('terminal'), 'by the owner\n');
  await untilShown(page.getByTestId('terminal'), 'by the owner');
  assert.equal(await server.call('GET', `/v1/processes/${id}/output?from=0`), 'by the owner\r\nby the owner\r\n');
  const { cols, rows } = await server.call('GET', `/v1/processes/${id}`);
  assert.notDeepEqual([cols, rows], [33, 11], 'the size is unchanged');
}

check('display/a_guest_with_a_share_link_cannot_type', async (t) => {
  const shared = await startShared(t);
  const guest = await openPage(t, await createShareLink(shared.owner));
  await guest.getByTestId('state').getByText('live').waitFor();
  await tryToType(guest);
  await assertNothingTyped(shared, guest);
});

check('display/a_read_token_cannot_type', async (t) => {
  const shared = await startShared(t);
  const { token } = await shared.server.call('POST', '/v1/tokens', { name: 'reader', scope: 'read' });
  const reader = await openPage(t, consoleAddress({ base: shared.server.base, token }), { allowedStatuses: [403] });
  await reader.getByTestId('process').getByText('shown', { exact: true }).click();
  await reader.getByText('read-only', { exact: true }).waitFor();
  await tryToType(reader);
  await assertNothingTyped(shared, reader);
});

// Uses sockets directly in a page of the console's origin, as a modified script could.
check('display/a_viewer_socket_cannot_type', async (t) => {
  const shared = await startShared(t);
  const guest = await openPage(t, await createShareLink(shared.owner));
  await guest.getByTestId('state').getByText('live').waitFor();
  for (const [role, expected] of Object.entries({ writer: [1006], viewer: ['ready', 'error', 'error', 'error'] })) {
    const { ticket } = await shared.server.call('POST', '/v1/tickets', { processId: shared.id, role: 'viewer' });
    const path = `/v1/processes/${shared.id}/connect?role=${role}&ticket=${ticket}`;
    const frames = await guest.evaluate(sendAsWriter, [path, `${TYPED} by socket\n`]);
    assert.deepEqual(
      frames.map((frame) => frame.type ?? frame),
      expected,
      `as a ${role}: ${JSON.stringify(frames)}`,
    );
  }
  await assertNothingTyped(shared, guest);
  assert.equal((await shared.server.call('GET', `/v1/processes/${shared.id}`)).status, 'running');
});

/** Sends every kind of frame that a writer may send. Returns the server's frames and the close code, if any. */
function sendAsWriter([path, text]) {
  return new Promise((resolve) => {
    const frames = [];
    const socket = new WebSocket(path);
    const input = JSON.stringify({ type: 'input', data: text });
    const everything = [new TextEncoder().encode(text), input, JSON.stringify({ type: 'signal', signal: 'SIGKILL' })];
    socket.onmessage = ({ data }) => {
      if (typeof data !== 'string') return;
      frames.push(JSON.parse(data));
      if (frames.length === 1) everything.forEach((frame) => socket.send(frame));
      if (frames.length === 4) resolve(frames);
    };
    socket.onclose = ({ code }) => resolve([...frames, code]);
  });
}
