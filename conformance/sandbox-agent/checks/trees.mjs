// Stop, kill and timeout reach every descendant, and children inherit nothing from the server.

import assert from 'node:assert/strict';
import { TIMEOUT_MS } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { retryWithLongerLimits } from '../../_shared/gate.mjs';

/** Starts a script that prints the pids of its descendants, one per line, and waits for `count` of them. */
async function family(t, script, count, options) {
  const info = await t.startShell(script, options);
  const { bytes } = await t.follow(info.id);
  const pids = () => bytes.text().split('\n').slice(0, -1).map((line) => line.trim()).filter((line) => /^\d+$/.test(line));
  await bytes.waitFor(`${count} pids`, () => pids().length >= count);
  const children = [];
  for (const pid of pids()) {
    const child = await t.findProcess(pid);
    assert.ok(child, `child ${pid} lives at first`);
    children.push(child);
  }
  return { ...info, children };
}

async function endsAll(t, call, script, count, options) {
  const { id, children } = await family(t, script, count, options);
  const { status } = await t.agent[call](id, { waitMs: TIMEOUT_MS });
  // Looks up all of them first, so that a failing check kills every survivor.
  const fates = await Promise.allSettled(children.map((child) => t.expectGone('child', child)));
  const survivors = fates.filter((fate) => fate.status === 'rejected');
  assert.equal(survivors.length, 0, survivors[0]?.reason.message);
  assert.equal(status, 'exited');
}

const CHILD = 'sleep 300 & echo $!; wait';
// In its own session, ignoring all signals that can be ignored.
const SETSID = `setsid sh -c 'trap "" HUP TERM INT; echo $$; while :; do sleep 1; done' & wait`;
// Re-parented to init or to the server, with an empty environment.
const DAEMON = `(setsid env -i sh -c 'trap "" HUP TERM; echo $$; while :; do sleep 1; done' &); exec sleep 300`;

check('stop_reaches_children', (t) => endsAll(t, 'stopProcess', CHILD, 1));
check('kill_reaches_children', (t) => endsAll(t, 'killProcess', CHILD, 1));
check('kill_reaches_children_of_a_terminal', (t) =>
  endsAll(t, 'killProcess', 'trap "" HUP; sleep 300 & echo $!; wait', 1, { tty: true }));
check('kill_reaches_setsid_children', (t) => endsAll(t, 'killProcess', SETSID, 1));
check('kill_reaches_setsid_children_of_a_terminal', (t) => endsAll(t, 'killProcess', SETSID, 1, { tty: true }));
check('kill_reaches_daemons', (t) => endsAll(t, 'killProcess', DAEMON, 1));
check('kill_reaches_grandchildren', (t) =>
  endsAll(t, 'killProcess', 'for i in 1 2 3; do sh -c "sleep 300 & echo \\$!; wait" & done; wait', 3));

check('kill_of_an_exited_process_reaches_its_remaining_tree', async (t) => {
  const { id, children } = await family(t, 'sleep 300 >/dev/null 2>&1 & echo $!', 1);
  await t.waitForExit(id);
  await t.agent.killProcess(id, { waitMs: TIMEOUT_MS });
  await t.expectGone('child', children[0]);
});

check('exit_does_not_wait_for_a_background_child', async (t) => {
  const { id, children } = await family(t, 'sleep 300 & echo $!; exit 4', 1);
  t.killAtEnd(children[0]);
  assert.equal((await t.waitForExit(id)).exitCode, 4);
});

check('run_timeout_kills_the_tree', async (t) => {
  // The output is redirected, so that this check is about the tree and not about the pipe.
  // The child may exit before the check can look it up, so it prints its own start time.
  const script = `sleep 300 >/dev/null 2>&1 & echo $! $(cut -d ' ' -f 22 /proc/$!/stat); wait`;
  const [, { stdout, timedOut }] = await retryWithLongerLimits((timeoutMs) => t.runShell(script, { timeoutMs }), (reply) => reply.stdout !== '');
  assert.equal(timedOut, true);
  assert.match(stdout, /^\d+ \d+\n$/);
  const [pid, started] = stdout.trim().split(' ');
  await t.expectGone('child', { pid, started });
});

check('no_pty_master_leaks_into_children', async (t) => {
  await t.start({ command: 'sleep', args: ['300'], tty: true });
  for (const [kind, open] of await openFiles(t)) {
    assert.ok(open.length >= 3, `${kind}: ${open.length} open files seen`);
    assert.ok(!open.some(([, target]) => target.includes('ptmx')), `${kind}: ${open.join(' ')}`);
  }
});

check('no_descriptor_leaks_into_children', async (t) => {
  // The server has a listener, a log and another process's terminal open at this moment.
  const other = await t.start({ command: 'cat', tty: true });
  await t.attach(other.id);
  await t.follow((await t.start({ command: 'cat' })).id);
  for (const [kind, open] of await openFiles(t)) {
    assert.deepEqual(open.map(([n]) => n), ['0', '1', '2'], `${kind}: ${open.join(' ')}`);
  }
});

/** [number, target] of each open file of a new child, for all three ways to start one. */
async function openFiles(t) {
  // The shell stays alive while `ls` inspects it, and opens no file for that.
  const script = 'ls -l /proc/$$/fd; :';
  const listings = [['run', (await t.runShell(script)).stdout]];
  for (const tty of [false, true]) {
    const { id } = await t.startShell(script, { tty });
    await t.waitForExit(id);
    listings.push([tty ? 'tty' : 'pipe', (await t.logBytes(id)).toString()]);
  }
  const parse = (text) => [...text.matchAll(/ (\d+) -> ([^\r\n]*)/g)].map(([, n, target]) => [n, target]);
  return listings.map(([kind, text]) => [kind, parse(text)]);
}

check('signals_are_at_their_defaults_in_children', async (t) => {
  // The server may ignore SIGPIPE or block SIGCHLD, but children must not inherit that.
  const { stdout } = await t.runShell('grep -E "^Sig(Blk|Ign)" /proc/self/status');
  const masks = [...stdout.matchAll(/(Sig\w+):\s*([0-9a-f]+)/g)].map(([, name, mask]) => [name, BigInt(`0x${mask}`)]);
  assert.deepEqual(masks, [['SigBlk', 0n], ['SigIgn', 0n]]);
});
