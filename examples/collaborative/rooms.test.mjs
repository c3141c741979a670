// Two rooms with three people, using the packages as the page does, without a browser. Run by web/run.mjs.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, test } from 'node:test';
import { WebSocket } from '../../web/node_modules/ws/wrapper.mjs';
import { Outlive } from '../../web/client/dist/index.js';
import { serve, until } from '../../web/client/test/support/server.mjs';

const TOKEN = 'the-token';
const outlive = await serve('--token', TOKEN);
const rooms = await startRooms();

async function startRooms() {
  // The example does not remove the directories of its rooms, because their shells may still run.
  const TMPDIR = await mkdtemp(join(tmpdir(), 'outlive-rooms-'));
  after(() => rm(TMPDIR, { recursive: true, force: true }));
  const env = { ...process.env, TMPDIR, OUTLIVE_URL: outlive.url, OUTLIVE_TOKEN: TOKEN, PORT: '0' };
  const child = spawn(process.execPath, [new URL('server.mjs', import.meta.url).pathname], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  after(() => child.kill());
  for await (const line of createInterface({ input: child.stdout })) return line.replace('open ', '');
  throw new Error('the example server exited');
}

/** Enters a room as a page of `origin` does. */
function enter(room, name, options, origin = rooms) {
  class FromPage extends WebSocket {
    constructor(url) {
      super(url, { origin });
    }
  }
  const url = `${rooms}/in/${room}/as/${encodeURIComponent(name)}`;
  const attachment = new Outlive({ url, WebSocket: FromPage }).process('the-room').attach({ from: 0, ...options });
  after(() => attachment.close());
  const person = { attachment, seen: '', items: [] };
  (async () => {
    for await (const item of attachment) {
      person.items.push(item.type);
      if (item.type === 'output') person.seen += Buffer.from(item.bytes);
    }
  })();
  const presence = async () => (await fetch(`${url}/presence`)).json();
  return Object.assign(person, { presence });
}

test('people in a room see its terminal, who is there and who types', async () => {
  const ada = enter('red', 'Ada');
  const bob = enter('red', 'B\u{f6}b /', { role: 'viewer' });
  const eve = enter('blue', 'Eve');
  await until(
    'all have a prompt',
    () => [ada, bob].every(({ seen }) => seen.includes('red$ ')) && eve.seen.includes('blue$ '),
  );
  ada.attachment.write('echo $((6 * 7)) in ${PWD##*/}\n');
  await until('both see the output', () => [ada, bob].every(({ seen }) => seen.includes('42 in red')));
  const people = await until('Ada is shown as typing', async () => {
    const present = await bob.presence();
    return present.some(({ isTyping }) => isTyping) && present;
  });
  const [first, second] = people.sort((one, other) => one.name.localeCompare(other.name));
  assert.deepEqual([first.name, first.role, first.isTyping], ['Ada', 'writer', true]);
  assert.deepEqual([second.name, second.role, second.isTyping], ['B\u{f6}b /', 'viewer', false]);
  assert.deepEqual(
    (await eve.presence()).map(({ name }) => name),
    ['Eve'],
  );
  assert.ok(!eve.seen.includes('42'));
  assert.deepEqual((await (await fetch(`${rooms}/rooms`)).json()).sort(), ['blue', 'red']);
  bob.attachment.close();
  await until('Bob has left', async () => (await ada.presence()).length === 1);
});

test('pages of other sites and other paths are rejected', async () => {
  const mallory = enter('red', 'Mallory', {}, 'http://evil.example');
  await until('the connection is rejected', () => mallory.items.includes('reconnecting'));
  assert.ok(!mallory.items.includes('connected'));
  mallory.attachment.close();
  for (const path of [
    '/server.mjs',
    '/node_modules/../server.mjs',
    '/node_modules/..%2fserver.mjs',
    '/v1/processes',
    '/in/red/as/x/v1/tokens',
  ]) {
    assert.notEqual((await fetch(rooms + path)).status, 200, path);
  }
});
