// Every call once, and how refusals look.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OutliveError } from '../dist/index.js';
import { serve, until } from './support/server.mjs';

const TOKEN = 'the-token';
const server = await serve('--token', TOKEN);
const outlive = server.client({ token: TOKEN });

test('a run answers with everything', async () => {
  const result = await outlive.run({ command: 'echo out; echo err >&2; exit 3', shell: true });
  assert.deepEqual([result.exitCode, result.stdout, result.stderr], [3, 'out\n', 'err\n']);
});

test('a run that is given up is killed', async () => {
  const given = new AbortController();
  const running = outlive.run({ command: 'sleep 4711', shell: true }, given.signal);
  const seen = async () => (await outlive.run({ command: 'pgrep -f "^sleep 4711" || true', shell: true })).stdout.trim();
  await until('it runs', seen);
  given.abort();
  await assert.rejects(running);
  await until('it is gone', async () => (await seen()) === '');
});

test('a process from its start to its end', async () => {
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
  await assert.rejects(cat.info(), (error) => error instanceof OutliveError && error.code === 'not_found' && error.status === 404);
});

test('signals, stop, kill and restart', async () => {
  const sleep = await outlive.start({ command: 'sleep', args: ['1000'] });
  await sleep.signal('SIGINT');
  assert.equal((await sleep.wait()).process.signal, 'SIGINT');
  await sleep.start();
  assert.equal((await sleep.stop({ waitMs: 5_000 })).status, 'exited');
  assert.equal((await sleep.restart()).status, 'running');
  assert.equal((await sleep.kill({ waitMs: 5_000 })).status, 'exited');
});

test('a retried start finds the first one', async () => {
  const ids = new Set();
  for (let count = 0; count < 3; count += 1) {
    ids.add((await outlive.start({ command: 'sleep', args: ['1000'] }, { key: 'once' })).id);
  }
  assert.equal(ids.size, 1);
});

test('a session remembers', async () => {
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

test('a recording of a terminal', async () => {
  const terminal = await outlive.start({ command: 'echo shown', shell: true, tty: true });
  await terminal.wait();
  assert.match(await terminal.recording(), /^\{.*"version":2.*\}\n.*shown/);
});

test('what a terminal shows', async () => {
  const terminal = await outlive.start({ command: 'sh', args: ['-c', 'printf "\\033]2;named\\007one\\r\\n\\033[1mtwo"; exec cat'], tty: true, cols: 20, rows: 3 });
  await terminal.wait({ for: 'output', pattern: 'two' });
  const screen = await terminal.screen();
  assert.deepEqual([screen.lines, screen.title, screen.cursor.row, screen.cursor.col], [['one', 'two', ''], 'named', 1, 3]);
  assert.match(await terminal.picture(), /^<svg .*two/s);
});

test('events come, also those during a death of the server', async () => {
  const over = new AbortController();
  const seen = [];
  const following = (async () => {
    for await (const event of outlive.events({ signal: over.signal })) seen.push(event);
  })();
  const start = async (label) => {
    const process = await outlive.start({ command: 'true', label });
    await process.wait();
    return process.id;
  };
  const first = await start('before');
  await until('the first', () => seen.some((event) => event.type === 'process.exited' && event.process.id === first));
  await server.killServer(TOKEN);
  const second = await until('it is back', () => start('after').catch(() => undefined));
  await until('the second', () => seen.some((event) => event.type === 'process.exited' && event.process.id === second));
  over.abort();
  await following;
  assert.equal(new Set(seen.map(({ id }) => id)).size, seen.length, 'none came twice');
  assert.ok(!seen.some(({ type }) => type === 'reset'), 'none is missing');
});

test('what is refused says why', async () => {
  await assert.rejects(server.client({ token: 'wrong' }).processes(), { code: 'token_invalid', status: 401 });
  await assert.rejects(outlive.start({ command: '' }), { code: 'invalid_value', status: 400 });
  const nobody = new (await import('../dist/index.js')).Outlive({ url: 'http://127.0.0.1:1' });
  await assert.rejects(nobody.health(), { code: 'connection_lost', status: 0 });
  const nowhere = new (await import('../dist/index.js')).Outlive({ url: 'http://no-such-host.invalid:2468' });
  await assert.rejects(nowhere.health(), { code: 'connection_lost', isHopeless: true });
});
