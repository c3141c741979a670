// The addon against a real server.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { serve, until } from '../../client/test/support/server.mjs';
import { open, shown } from './support/terminal.mjs';

const TOKEN = 'the-token';
const server = await serve('--token', TOKEN);
const client = server.client({ token: TOKEN });

test('a program is shown from its first byte to its exit', async () => {
  const shell = await client.start({
    command: 'stty -echo; echo ready; read line; echo "got $line"; stty size; exit 7',
    shell: true,
    tty: true,
  });
  const { terminal, addon, states } = open({ client, begin: { from: 0 } }, { cols: 91, rows: 31 });
  addon.connect(shell.id);
  await until('the program is ready', () => shown(terminal).includes('ready'));
  terminal.input('h\u{e9}llo\r');
  await until('the program has exited', () => addon.state.name === 'exited');
  assert.deepEqual(shown(terminal), ['ready', 'got h\u{e9}llo', '31 91']);
  assert.equal(addon.state.exitCode, 7);
  assert.deepEqual(states, ['connecting', 'connected', 'exited']);
});

test('old terminal queries are not answered and new ones are', async () => {
  const script = `stty -echo; printf '\\033[5nasked once\\n'; read line; echo "first [$line]"
    stty -icanon; printf '\\033[5n'; answer=$(dd bs=1 count=4 2>/dev/null | tail -c 3); echo "then $answer"; sleep 1000`;
  const shell = await client.start({ command: script, shell: true, tty: true });
  await shell.wait({ for: 'output', pattern: 'asked once' });
  const { terminal, addon } = open({ client, begin: { from: 0 } });
  addon.connect(shell.id);
  await until('the old query is shown', () => shown(terminal).includes('asked once'));
  terminal.input('typed\r');
  await until('the new query is answered', () => shown(terminal).includes('then [0n'));
  assert.deepEqual(shown(terminal), ['asked once', 'first [typed]', 'then [0n']);
});

test('heavy output is complete although the server is killed, and unparsed bytes stay within the window', async () => {
  const lines = 60_000;
  const window = 64 * 1024;
  const flood = await client.start({ command: `seq ${lines}; exec sleep 1000`, shell: true, tty: true });
  const { terminal, addon, notices } = open({ client, begin: { from: 0 }, windowBytes: window });
  let [unparsed, maxUnparsed] = [0, 0];
  const write = terminal.write.bind(terminal);
  terminal.write = (data, parsed) => {
    unparsed += data.length;
    maxUnparsed = Math.max(maxUnparsed, unparsed);
    write(data, () => {
      unparsed -= data.length;
      parsed();
    });
  };
  addon.connect(flood.id);
  await until('some output is shown', () => shown(terminal).length > 500);
  await server.killServer(TOKEN);
  await until('all output is shown', () => shown(terminal).at(-1) === String(lines));
  const last = shown(terminal).map(Number);
  assert.ok(
    last.every((number, at) => at === 0 || number === last[at - 1] + 1),
    'no loss and no duplicates',
  );
  assert.deepEqual(notices, []);
  // Bytes in flight when the connection was lost were not acknowledged and come on top.
  assert.ok(maxUnparsed <= 2 * window, `${maxUnparsed} bytes were not parsed`);
});

test('the size of the writer that typed last is effective', async () => {
  const cat = await client.start({ command: 'cat', tty: true });
  const one = open({ client, begin: { from: 0 } }, { cols: 100, rows: 30 });
  one.addon.connect(cat.id);
  await until('the first is connected', () => one.addon.state.name === 'connected');
  const other = open({ client, begin: { from: 0 } }, { cols: 60, rows: 20 });
  other.addon.connect(cat.id);
  await until('the second has the size of the first', () => other.terminal.cols === 100 && other.terminal.rows === 30);
  other.terminal.input('x\r');
  await until('both have the size of the second', () => one.terminal.cols === 60 && other.terminal.cols === 60);
  assert.equal((await cat.info()).cols, 60);
});

test('an unknown process is an error', async () => {
  const { addon } = open({ client });
  addon.connect('proc_unknown');
  await until('the connection is refused', () => addon.state.name === 'error');
  assert.equal(addon.state.error.code, 'not_found');
});

test('a ticket is fetched for each connection', async () => {
  const cat = await client.start({ command: 'cat', tty: true });
  let tickets = 0;
  const ticket = async () => {
    tickets += 1;
    return (await cat.ticket()).ticket;
  };
  const { terminal, addon, states } = open({ client: server.client(), ticket, begin: { tail: 1000 } });
  addon.connect(cat.id);
  await until('the addon is connected', () => states.includes('connected'));
  await server.killServer(TOKEN);
  await until('the connection is lost', () => states.includes('reconnecting'));
  terminal.input('typed\r');
  await until(
    'the input arrives after reconnecting',
    () => shown(terminal).filter((line) => line === 'typed').length === 2,
  );
  assert.ok(tickets >= 2);
});
