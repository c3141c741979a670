// Every call of the client against a real server, and its errors.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Outlive, OutliveError } from '../dist/index.js';
import { serve, until } from './support/server.mjs';

const TOKEN = 'the-token';
const server = await serve('--token', TOKEN);
const outlive = server.client({ token: TOKEN });

test('run returns exit code and output', async () => {
  const result = await outlive.run({ command: 'echo out; echo err >&2; exit 3', shell: true });
  assert.deepEqual([result.exitCode, result.stdout, result.stderr], [3, 'out\n', 'err\n']);
});

test('an aborted run is killed', async () => {
  const abort = new AbortController();
  const running = outlive.run({ command: 'sleep 4711', shell: true }, abort.signal);
  const pids = async () =>
    (await outlive.run({ command: 'pgrep -f "^sleep 4711" || true', shell: true })).stdout.trim();
  await until('the command runs', pids);
  abort.abort();
  await assert.rejects(running);
  await until('the command is gone', async () => (await pids()) === '');
});

test('the history lists its boots and the kept runs of a boot', async () => {
  const { state, boots } = await outlive.history();
  const [current] = boots.filter((boot) => boot.current);
  assert.deepEqual([state, current.id], ['on', (await outlive.health()).bootId]);
  await outlive.run({ command: 'exit 7', shell: true, keep: true });
  await until('the run is stored', async () =>
    (await outlive.processes({ boot: current.id })).some(({ exitCode }) => exitCode === 7),
  );
  await assert.rejects(outlive.processes({ boot: 'no-such-boot' }), { code: 'not_found' });
});

test('tickets are created, listed and revoked', async () => {
  const cat = await outlive.start({ command: 'cat', tty: true });
  const created = await cat.ticket('viewer', { ttlMs: 3_600_000, uses: 5 });
  assert.deepEqual([created.processId, created.expiresInMs, created.uses], [cat.id, 3_600_000, 5]);
  const [listed] = (await outlive.tickets()).filter(({ id }) => id === created.id);
  assert.deepEqual([listed.processId, listed.role, listed.usesLeft], [cat.id, 'viewer', 5]);
  await outlive.revokeTicket(created.id);
  assert.ok(!(await outlive.tickets()).some(({ id }) => id === created.id));
  await assert.rejects(outlive.revokeTicket(created.id), { code: 'not_found' });
  await cat.delete({ force: true });
});

test('a process is started, written to, read, renamed and deleted', async () => {
  const cat = await outlive.start({ command: 'cat', tag: 'the cat' });
  const large = 'x'.repeat(100_000) + '\u{1f600}\n';
  await cat.write(large);
  await cat.wait({ for: 'output', pattern: '\u{1f600}', timeoutMs: 10_000 });
  assert.equal(new TextDecoder().decode(await cat.output()), large);
  assert.equal((await outlive.process('tag:the cat').info()).id, cat.id);
  assert.ok((await outlive.processes({ tag: 'the cat' })).some(({ id }) => id === cat.id));
  assert.equal((await cat.patch({ label: 'named' })).label, 'named');
  assert.ok((await cat.tree()).processes.length >= 1);
  await cat.closeStdin();
  const { process } = await cat.wait({ for: 'exit' });
  assert.equal(process.exitCode, 0);
  assert.ok((await cat.logs()).length > 0);
  await cat.delete();
  await assert.rejects(
    cat.info(),
    (error) => error instanceof OutliveError && error.code === 'not_found' && error.status === 404,
  );
});

test('signal, stop, kill and restart change the process status', async () => {
  const sleep = await outlive.start({ command: 'sleep', args: ['1000'] });
  await sleep.signal('SIGINT');
  assert.equal((await sleep.wait()).process.signal, 'SIGINT');
  await sleep.start();
  assert.equal((await sleep.stop({ waitMs: 5_000 })).status, 'exited');
  assert.equal((await sleep.restart()).status, 'running');
  assert.equal((await sleep.kill({ waitMs: 5_000 })).status, 'exited');
});

test('start with the same key returns the same process', async () => {
  const ids = new Set();
  for (let count = 0; count < 3; count += 1) {
    ids.add((await outlive.start({ command: 'sleep', args: ['1000'] }, { key: 'once' })).id);
  }
  assert.equal(ids.size, 1);
});

test('a session keeps its directory and variables between commands', async () => {
  const session = await outlive.createSession({ shell: 'bash' });
  await session.exec('cd /usr; V=kept');
  const result = await session.exec('echo $V in $PWD');
  assert.equal(result.stdout, 'kept in /usr\n');
  assert.ok((await outlive.sessions()).some(({ id }) => id === session.id));
  const process = await session.start({ command: 'echo $V' });
  await process.wait();
  assert.equal(new TextDecoder().decode(await process.output()), 'kept\n');
  assert.match(JSON.stringify(await outlive.context({ sessionId: session.id })), /kept in/);
  await session.delete();
  await assert.rejects(session.info(), { code: 'not_found' });
});

test('recording returns an asciicast', async () => {
  const terminal = await outlive.start({ command: 'echo shown', shell: true, tty: true });
  await terminal.wait();
  assert.match(await terminal.recording(), /^\{.*"version":2.*\}\n.*shown/);
});

test('screen and picture return the current screen', async () => {
  const terminal = await outlive.start({
    command: 'sh',
    args: ['-c', 'printf "\\033]2;named\\007one\\r\\n\\033[1mtwo"; exec cat'],
    tty: true,
    cols: 20,
    rows: 3,
  });
  await terminal.wait({ for: 'output', pattern: 'two' });
  const screen = await terminal.screen();
  assert.deepEqual(
    [screen.lines, screen.title, screen.cursor.row, screen.cursor.col],
    [['one', 'two', ''], 'named', 1, 3],
  );
  assert.match(await terminal.picture(), /^<svg .*two/s);
});

test('events survive a killed server without loss or duplicates', async () => {
  const abort = new AbortController();
  const seen = [];
  const following = (async () => {
    for await (const event of outlive.events({ signal: abort.signal })) seen.push(event);
  })();
  const start = async (label) => {
    const process = await outlive.start({ command: 'true', label });
    await process.wait();
    return process.id;
  };
  const first = await start('before');
  await until('the first exit event', () =>
    seen.some((event) => event.type === 'process.exited' && event.process.id === first),
  );
  await server.killServer(TOKEN);
  const second = await until('the server is back', () => start('after').catch(() => undefined));
  await until('the second exit event', () =>
    seen.some((event) => event.type === 'process.exited' && event.process.id === second),
  );
  abort.abort();
  await following;
  assert.equal(new Set(seen.map(({ id }) => id)).size, seen.length, 'no duplicates');
  assert.ok(!seen.some(({ type }) => type === 'reset'), 'no loss');
});

test('events show what happens to a session', async () => {
  const abort = new AbortController();
  const seen = [];
  const following = (async () => {
    for await (const event of outlive.events({ sessionId: 'watched', after: '0-0', signal: abort.signal }))
      seen.push(event);
  })();
  await until('the stream is open', () => seen.some(({ type }) => type === 'reset'));
  const session = await outlive.createSession({ id: 'watched' });
  const { execId } = await session.exec('cd /usr');
  await session.delete();
  await until('session.deleted', () => seen.some(({ type }) => type === 'session.deleted'));
  abort.abort();
  await following;
  assert.deepEqual(
    seen.slice(1).map((event) => [event.type, event.reason, event.execId]),
    [
      ['session.created', undefined, undefined],
      ['session.updated', 'execStarted', execId],
      ['session.updated', 'execFinished', execId],
      ['session.deleted', undefined, undefined],
    ],
  );
  assert.equal(seen[3].session.cwd, '/usr');
});

test('errors carry the code of the server or connection_lost', async () => {
  await assert.rejects(server.client({ token: 'wrong' }).processes(), { code: 'token_invalid', status: 401 });
  await assert.rejects(outlive.start({ command: '' }), { code: 'invalid_value', status: 400 });
  const closedPort = new Outlive({ url: 'http://127.0.0.1:1' });
  await assert.rejects(closedPort.health(), { code: 'connection_lost', status: 0 });
  const unknownHost = new Outlive({ url: 'http://no-such-host.invalid:2468' });
  await assert.rejects(unknownHost.health(), { code: 'connection_lost', isHopeless: true });
});
