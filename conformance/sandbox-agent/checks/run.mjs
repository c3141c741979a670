// runProcess.

import assert from 'node:assert/strict';
import { TIMEOUT_MS, numbers, printNumbers } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { retryWithLongerLimits } from '../../_shared/gate.mjs';
import { MB, expectProblem, assertSameBytes, timed } from '../support.mjs';

// The children in these checks outlive the time limit of a check, so a server that waits for one never responds in
// time.

check('run_returns_output_and_exit_code', async (t) => {
  const { value: { durationMs, ...result }, ms } = await timed(t.runShell('echo out; echo err >&2; exit 3'));
  assert.ok(Number.isInteger(durationMs) && durationMs >= 0 && durationMs <= ms + 1, `durationMs ${durationMs} of ${ms} ms`);
  // More keys are allowed; these are required.
  const { exitCode, timedOut, stdout, stderr, stdoutTruncated, stderrTruncated } = result;
  assert.deepEqual(
    { exitCode, timedOut, stdout, stderr, stdoutTruncated, stderrTruncated },
    { exitCode: 3, timedOut: false, stdout: 'out\n', stderr: 'err\n', stdoutTruncated: false, stderrTruncated: false },
  );
});

check('run_uses_no_shell', async (t) => {
  const args = ['a b', '$HOME', '*', "it's", '', 'naïve', '-n', 'new\nline'];
  const { stdout } = await t.agent.runProcess({ command: 'printf', args: ['[%s]', ...args] });
  assert.equal(stdout, args.map((arg) => `[${arg}]`).join(''));
});

check('run_has_environment_and_cwd', async (t) => {
  const dir = await t.tempDir();
  const { stdout } = await t.runShell('pwd; printf "%s|%s" "$NEW" "${PATH:+path kept}"', {
    cwd: dir, env: { NEW: 'value' },
  });
  assert.equal(stdout, `${dir}\nvalue|path kept`);
});

check('run_has_a_TERM', async (t) => {
  const { stdout } = await t.runShell('printf %s "$TERM"');
  assert.equal(stdout, 'xterm-256color');
  const own = await t.runShell('printf %s "$TERM"', { env: { TERM: 'vt100' } });
  assert.equal(own.stdout, 'vt100');
});

check('run_finds_the_command_by_the_childs_PATH_and_cwd', async (t) => {
  const dir = await t.tempDir();
  const tool = '#!/bin/sh\necho tool "$1"\n';
  await t.runShell('printf %s "$2" > "$1/tool" && chmod +x "$1/tool"', { args: [dir, tool] });
  const byPath = await t.agent.runProcess({ command: 'tool', args: ['x'], env: { PATH: `${dir}:/usr/bin:/bin` } });
  assert.equal(byPath.stdout, 'tool x\n');
  const byCwd = await t.agent.runProcess({ command: './tool', args: ['y'], cwd: dir });
  assert.equal(byCwd.stdout, 'tool y\n');
});

check('run_stdin_is_empty', async (t) => {
  const { exitCode, stdout, timedOut } = await t.agent.runProcess({ command: 'cat', timeoutMs: TIMEOUT_MS });
  assert.deepEqual([exitCode, stdout, timedOut], [0, '', false]);
});

check('run_death_by_signal_has_a_null_exit_code', async (t) => {
  const result = await t.runShell('echo before; kill -KILL $$');
  assert.deepEqual([result.exitCode, result.timedOut, result.stdout], [null, false, 'before\n']);
});

check('run_timeout_keeps_the_output_so_far', async (t) => {
  const [limit, { value, ms }] = await retryWithLongerLimits(
    (timeoutMs) => timed(t.runShell('echo before; exec sleep 300', { timeoutMs })),
    (reply) => reply.value.stdout !== '',
  );
  assert.deepEqual([value.exitCode, value.timedOut, value.stdout], [null, true, 'before\n']);
  assert.ok(ms >= limit - 10, `took ${ms} ms`);
});

check('run_timeout_is_prompt', async (t) => {
  // The shell has a child, and the child holds the pipe.
  const { timedOut, stdout } = await t.runShell('sleep 300; echo late', { timeoutMs: 400 });
  assert.deepEqual([timedOut, stdout], [true, '']);
});

check('run_returns_when_the_command_exits', async (t) => {
  const { exitCode, timedOut, stdout } = await t.runShell('sleep 300 & echo $!');
  assert.deepEqual([exitCode, timedOut], [0, false]);
  assert.match(stdout, /^\d+\n$/);
  const child = await t.findProcess(stdout.trim());
  if (child) t.killAtEnd(child);
});

check('run_timeouts_follow_the_config', async (t) => {
  await t.changeLimits({ defaultRunTimeoutMs: 300, maxRunTimeoutMs: 600 });
  for (const timeoutMs of [undefined, 0, 250_000]) {
    const { value, ms } = await timed(t.agent.runProcess({ command: 'sleep', args: ['300'], timeoutMs }));
    assert.equal(value.timedOut, true);
    const least = timeoutMs === 250_000 ? 590 : 290;
    assert.ok(ms >= least, `timeoutMs ${timeoutMs} took ${ms} ms`);
  }
});

check('run_truncation_keeps_the_head', async (t) => {
  const result = await t.runShell('seq 1 100000; printf short >&2', { maxOutputBytes: 10 });
  assert.deepEqual(
    [result.exitCode, result.stdout, result.stdoutTruncated, result.stderr, result.stderrTruncated],
    [0, '1\n2\n3\n4\n5\n', true, 'short', false],
  );
});

check('run_output_of_exactly_the_limit_is_not_truncated', async (t) => {
  const result = await t.agent.runProcess({ command: 'printf', args: ['12345'], maxOutputBytes: 5 });
  assert.deepEqual([result.stdout, result.stdoutTruncated], ['12345', false]);
});

check('run_output_limit_of_zero_returns_no_output', async (t) => {
  const result = await t.runShell('echo x', { maxOutputBytes: 0 });
  assert.deepEqual([result.exitCode, result.stdout, result.stdoutTruncated, result.stderrTruncated], [0, '', true, false]);
});

check('run_output_limit_follows_the_config', async (t) => {
  await t.changeLimits({ maxOutputBytes: 4 });
  const result = await t.runShell('printf 123456', { maxOutputBytes: 1_000 });
  assert.deepEqual([result.stdout, result.stdoutTruncated], ['1234', true]);
});

check('run_truncation_keeps_characters_whole', async (t) => {
  const result = await t.agent.runProcess({ command: 'printf', args: ['aé'], maxOutputBytes: 2 });
  assert.deepEqual([result.stdout, result.stdoutTruncated], ['a', true]);
});

check('run_replaces_invalid_utf8', async (t) => {
  const { stdout } = await t.runShell("printf 'a\\377b'");
  assert.equal(stdout, 'a\ufffdb');
});

check('run_output_of_20MB_is_exact', async (t) => {
  await t.changeLimits({ maxOutputBytes: 32 * MB });
  const result = await t.runShell(printNumbers(20 * MB));
  assert.equal(result.stdoutTruncated, false);
  assertSameBytes(Buffer.from(result.stdout), numbers(20 * MB));
});

check('run_executes_100_commands_at_once', async (t) => {
  const results = await Promise.all(
    Array.from({ length: 100 }, (_, i) => t.runShell('seq 1 1000; echo "$1"; exit "$1"', { args: [String(i)] })),
  );
  const head = (await t.runShell('seq 1 1000')).stdout;
  assert.equal(head.length, 3_893);
  results.forEach((result, i) => assert.deepEqual([result.exitCode, result.stdout], [i, `${head}${i}\n`]));
});

check('run_is_not_listed', async (t) => {
  const dir = await t.tempDir();
  const pending = t.runShell('touch "$1/up"; while [ ! -e "$1/go" ]; do sleep 0.05; done', { args: [dir] });
  await t.waitFor('the command is up', async () => (await t.runShell('test -e "$1/up"', { args: [dir] })).exitCode === 0);
  const { processes } = await t.agent.listProcesses();
  assert.ok(!processes.some(({ args }) => args.includes(dir)), 'a run is not listed');
  await t.runShell('touch "$1/go"', { args: [dir] });
  assert.equal((await pending).exitCode, 0);
});

check('run_is_not_counted_by_the_process_limit', async (t) => {
  const { processes } = await t.agent.listProcesses();
  const running = processes.filter(({ status }) => status === 'running').length;
  await t.changeLimits({ maxConcurrentProcesses: running + 1 });
  await t.start({ command: 'sleep', args: ['300'] });
  assert.equal((await t.agent.runProcess({ command: 'true' })).exitCode, 0);
});

check('run_is_killed_when_its_client_disconnects', async (t) => {
  const dir = await t.tempDir();
  const leaving = new AbortController();
  const leaver = t.client({ signal: leaving.signal });
  const script = 'echo $$ > "$1/pid.new"; mv "$1/pid.new" "$1/pid"; exec sleep 300';
  const pending = leaver.runProcess({ command: 'sh', args: ['-c', script, 'sh', dir] });
  pending.catch(() => {});
  const readPid = async () => (await t.runShell('cat "$1/pid"', { args: [dir] })).stdout.trim();
  const command = await t.findProcess(await t.waitFor('the command is up', readPid));
  assert.ok(command);
  leaving.abort();
  await t.expectGone('the command', command);
});

check('run_blank_command_is_400', async (t) => {
  for (const command of ['', '   ']) {
    await expectProblem(t.agent.runProcess({ command }), 400, { type: 'invalid_request' });
  }
});

check('run_null_means_unset', async (t) => {
  const result = await t.agent.runProcess({ command: 'pwd', cwd: null, timeoutMs: null, maxOutputBytes: null });
  assert.deepEqual([result.exitCode, result.timedOut], [0, false]);
});
