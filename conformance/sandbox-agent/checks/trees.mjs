// A stop, a kill and a timeout reach every descendant, and children inherit nothing from the server.

import assert from 'node:assert/strict';
import { PATIENCE_MS } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';
import { longEnough } from '../../_shared/pace.mjs';

/** Starts a script that prints the pids of its descendants, one a line, and waits for `count` of them. */
async function family(t, script, count, options) {
  const info = await t.startShell(script, options);
  const { bytes } = await t.follow(info.id);
  const pids = () => bytes.text().split('\n').slice(0, -1).map((line) => line.trim()).filter((line) => /^\d+$/.test(line));
  await bytes.until(`${count} pids`, () => pids().length >= count);
  const children = [];
  for (const pid of pids()) {
    const child = await t.lookUp(pid);
    assert.ok(child, `child ${pid} lives at first`);
    children.push(child);
  }
  return { ...info, children };
}

async function endsAll(t, call, script, count, options) {
  const { id, children } = await family(t, script, count, options);
  const { status } = await t.agent[call](id, { waitMs: PATIENCE_MS });
  // All of them first, so that a failing check kills every survivor.
  const fates = await Promise.allSettled(children.map((child) => t.gone('child', child)));
  const survivors = fates.filter((fate) => fate.status === 'rejected');
  assert.equal(survivors.length, 0, survivors[0]?.reason.message);
  assert.equal(status, 'exited');
}

const CHILD = 'sleep 300 & echo $!; wait';
// Its own session, and deaf to the polite signals.
const SETSID = `setsid sh -c 'trap "" HUP TERM INT; echo $$; while :; do sleep 1; done' & wait`;
// Re-parented to init or to the server, with an empty environment.
const DAEMON = `(setsid env -i sh -c 'trap "" HUP TERM; echo $$; while :; do sleep 1; done' &); exec sleep 300`;

check('stop_reaches_children', (t) => endsAll(t, 'stopProcess', CHILD, 1));
check('kill_reaches_children', (t) => endsAll(t, 'killProcess', CHILD, 1));
check('kill_reaches_children_tty', (t) =>
  endsAll(t, 'killProcess', 'trap "" HUP; sleep 300 & echo $!; wait', 1, { tty: true }));
check('kill_reaches_setsid_children', (t) => endsAll(t, 'killProcess', SETSID, 1));
check('kill_reaches_setsid_children_tty', (t) => endsAll(t, 'killProcess', SETSID, 1, { tty: true }));
check('kill_reaches_daemons', (t) => endsAll(t, 'killProcess', DAEMON, 1));
check('kill_reaches_grandchildren', (t) =>
  endsAll(t, 'killProcess', 'for i in 1 2 3; do sh -c "sleep 300 & echo \\$!; wait" & done; wait', 3));

check('kill_of_an_exited_process_reaches_what_is_left', async (t) => {
  const { id, children } = await family(t, 'sleep 300 >/dev/null 2>&1 & echo $!', 1);
  await t.exited(id);
  await t.agent.killProcess(id, { waitMs: PATIENCE_MS });
  await t.gone('child', children[0]);
});

check('a_background_child_does_not_delay_the_exit', async (t) => {
  const { id, children } = await family(t, 'sleep 300 & echo $!; exit 4', 1);
  t.killAtEnd(children[0]);
  assert.equal((await t.exited(id)).exitCode, 4);
});

check('run_timeout_kills_tree', async (t) => {
  // The output is redirected, so that this is about the tree and not about who holds the pipe.
  // Nobody could look the child up while it was sure to live, so it tells its start itself.
  const script = `sleep 300 >/dev/null 2>&1 & echo $! $(cut -d ' ' -f 22 /proc/$!/stat); wait`;
  const [, { stdout, timedOut }] = await longEnough((timeoutMs) => t.runShell(script, { timeoutMs }), (answer) => answer.stdout !== '');
  assert.equal(timedOut, true);
  assert.match(stdout, /^\d+ \d+\n$/);
  const [pid, started] = stdout.trim().split(' ');
  await t.gone('child', { pid, started });
});

check('no_pty_master_leaks_into_children', async (t) => {
  await t.start({ command: 'sleep', args: ['300'], tty: true });
  for (const [kind, open] of await openFiles(t)) {
    assert.ok(open.length >= 3, `${kind}: ${open.length} open files seen`);
    assert.ok(!open.some(([, target]) => target.includes('ptmx')), `${kind}: ${open.join(' ')}`);
  }
});

check('no_descriptor_leaks_into_children', async (t) => {
  // A listener, a log and a terminal of somebody else are all open in the server at this moment.
  const other = await t.start({ command: 'cat', tty: true });
  await t.attach(other.id);
  await t.follow((await t.start({ command: 'cat' })).id);
  for (const [kind, open] of await openFiles(t)) {
    assert.deepEqual(open.map(([n]) => n), ['0', '1', '2'], `${kind}: ${open.join(' ')}`);
  }
});

/** [number, target] of each open file of a fresh child, in the three ways of starting one. */
async function openFiles(t) {
  // The shell stays while `ls` looks at it, and opens nothing for that.
  const script = 'ls -l /proc/$$/fd; :';
  const listings = [['run', (await t.runShell(script)).stdout]];
  for (const tty of [false, true]) {
    const { id } = await t.startShell(script, { tty });
    await t.exited(id);
    listings.push([tty ? 'tty' : 'pipe', (await t.logBytes(id)).toString()]);
  }
  const parse = (text) => [...text.matchAll(/ (\d+) -> ([^\r\n]*)/g)].map(([, n, target]) => [n, target]);
  return listings.map(([kind, text]) => [kind, parse(text)]);
}

check('signals_are_at_their_defaults_in_children', async (t) => {
  // A server that ignores SIGPIPE or blocks SIGCHLD must not pass that on.
  const { stdout } = await t.runShell('grep -E "^Sig(Blk|Ign)" /proc/self/status');
  const masks = [...stdout.matchAll(/(Sig\w+):\s*([0-9a-f]+)/g)].map(([, name, mask]) => [name, BigInt(`0x${mask}`)]);
  assert.deepEqual(masks, [['SigBlk', 0n], ['SigIgn', 0n]]);
});
