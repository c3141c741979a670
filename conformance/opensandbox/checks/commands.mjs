// Foreground commands.

import assert from 'node:assert/strict';
import { TIMEOUT_MS, eventually, uniqueMarker, withTimeout } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { Gate } from '../../_shared/gate.mjs';
import { expectError } from '../support.mjs';

check('run_returns_both_streams_and_the_exit', async (t) => {
  const { out, err, exitCode, error, complete, id } = await t.run('echo out; echo err >&2');
  assert.deepEqual([out, err, exitCode, error], ['out', 'err', 0, undefined]);
  assert.ok(complete.timestamp > 0);
  assert.match(id, /^[0-9a-f]{32}$/);
});

check('run_stream_is_bare_json_with_init_ping_output_and_end', async (t) => {
  const stream = await t.stream('POST', '/command', { command: 'echo a' });
  assert.match(stream.headers['content-type'], /^text\/event-stream/);
  assert.equal(stream.headers['cache-control'], 'no-cache');
  assert.equal(stream.headers['x-accel-buffering'], 'no');
  const kinds = [];
  for await (const event of stream.events) kinds.push(event.type);
  assert.deepEqual(kinds, ['init', 'ping', 'stdout', 'execution_complete']);
});

check('run_streams_output_while_the_command_runs', async (t) => {
  const gate = new Gate(t.cleanUpSteps);
  const seen = [];
  let first;
  const started = new Promise((resolve) => { first = resolve; });
  const running = t.commands.run(`echo first; ${gate.waitCommand}; echo last`, {}, {
    onStdout: ({ text }) => { seen.push(text); first(); },
  });
  await Promise.race([started, running.then(() => assert.fail('the command exited before its first output'))]);
  assert.deepEqual(seen, ['first']);
  gate.release();
  await running;
  assert.deepEqual(seen, ['first', 'last']);
});

check('run_stream_closes_at_the_exit', async (t) => {
  // The original keeps each stream open for a second after the exit; this many would exceed the time limit of a check.
  for (let round = 0; round < 60; round += 1) assert.equal((await t.run('true')).exitCode, 0);
});

check('run_keeps_the_order_of_stdout_and_stderr', async (t) => {
  const gate = new Gate(t.cleanUpSteps);
  const all = t.collectStream('POST', '/command', { command: `for i in 1 2 3 4 5 6 7 8; do echo o$i; ${gate.waitCommand}; echo e$i >&2; ${gate.waitCommand}; done` });
  // Two pipes have a defined order only if each word is written after the previous one was recorded.
  for (let words = 1; words <= 16; words += 1) {
    await eventually(`${words} words`, async () => (await t.findNative(gate.fifo))[0]?.outputEnd === words * 'o1\n'.length);
    gate.release();
  }
  const texts = (await all).filter(({ text, type }) => text && type !== 'init').map(({ type, text }) => `${type} ${text}`);
  assert.deepEqual(texts, [1, 2, 3, 4, 5, 6, 7, 8].flatMap((i) => [`stdout o${i}`, `stderr e${i}`]));
});

check('run_sends_pings_while_silent', async (t) => {
  const gate = new Gate(t.cleanUpSteps);
  const stream = await t.stream('POST', '/command', { command: gate.waitCommand });
  const kinds = [];
  for await (const event of stream.events) {
    kinds.push(event.type);
    if (event.type === 'ping') assert.equal(event.text, 'pong');
    // The command prints nothing and exits only after the second ping.
    if (kinds.length === 3) gate.release();
  }
  assert.deepEqual([...kinds.slice(0, 3), kinds.at(-1)], ['init', 'ping', 'ping', 'execution_complete'], 'a ping at once, and more while the command is silent');
});

check('run_has_environment_cwd_and_empty_stdin', async (t) => {
  const { out } = await t.run('echo $A; pwd; cat; echo done', { envs: { A: 'x y' }, workingDirectory: '/usr' });
  assert.equal(out, 'x y\n/usr\ndone');
  const at = async (cwd, envs) => (await t.run('pwd', { workingDirectory: cwd, envs })).out;
  assert.equal(await at('$WHERE/lib', { WHERE: '/usr' }), '/usr/lib');
  assert.equal(await at('${WHERE}', { WHERE: '/usr' }), '/usr');
  assert.ok((await at('~')).startsWith('/'));
});

check('run_bad_cwd_is_400', async (t) => {
  for (const cwd of ['/no/such/directory', '/etc/passwd']) {
    await expectError(t.run('true', { workingDirectory: cwd }), 400, 'INVALID_REQUEST_BODY', /working directory/);
  }
  await expectError(t.run('true', { workingDirectory: '$NOBODY_HAS_THIS/x' }), 400, 'INVALID_REQUEST_BODY', /NOBODY_HAS_THIS/);
});

check('run_missing_program_exits_with_127', async (t) => {
  const { exitCode, err } = await t.run('no-such-command-here');
  assert.equal(exitCode, 127);
  assert.match(err, /command not found/);
});

check('run_switches_user_and_group', async (t) => {
  const { out } = await t.run('id -u; id -g', { uid: 1, gid: 2 });
  assert.equal(out, '1\n2');
  assert.equal((await t.run('id -un; id -gn', { uid: 1 })).out, 'daemon\ndaemon');
  assert.equal((await t.run('id -u', { uid: process.getuid() })).out, String(process.getuid()), 'the uid of the server itself');
  const { status, json } = await t.http('POST', '/command', { body: { command: 'id', gid: 1 } });
  assert.deepEqual([status, json.code], [400, 'INVALID_REQUEST_BODY']);
});

check('run_argv_without_a_shell', async (t) => {
  const all = await t.collectStream('POST', '/command', { argv: ['printf', '%s|', '$HOME', 'a b'] });
  assert.deepEqual(all.map(({ type, text }) => [type, text]).slice(1), [['stdout', '$HOME|a b|'], ['execution_complete', undefined]]);
  for (const body of [{ argv: [] }, { argv: [''] }, { argv: ['a\0b'] }, { argv: ['x'], command: 'x' }]) {
    assert.equal((await t.http('POST', '/command', { body })).status, 400, JSON.stringify(body));
  }
});

check('run_argv_that_cannot_be_started_is_an_error_with_a_message', async (t) => {
  const all = await t.collectStream('POST', '/command', { argv: ['/no/such/program', 'x'] });
  assert.deepEqual(all.map(({ type }) => type), ['init', 'error']);
  assert.match(all[1].error.evalue, /program/);
  assert.ok(Number.isNaN(Number(all[1].error.evalue)), 'no exit code');
  const status = await t.commands.getCommandStatus(all[0].text);
  assert.deepEqual([status.running, status.exitCode, status.content], [false, 255, '/no/such/program x']);
  assert.match(status.error, /program/);
});

check('run_continues_without_its_client', async (t) => {
  const gate = new Gate(t.cleanUpSteps);
  const abort = new AbortController();
  let id;
  const running = t.commands.run(`${gate.waitCommand}; exit 7`, {}, { onInit: (init) => { id = init.id; abort.abort(); } }, abort.signal);
  await running.then(() => assert.fail('the stream must be aborted'), () => {});
  gate.release();
  const status = await t.waitForEnd(id);
  assert.deepEqual([status.exitCode, status.error], [7, 'exit status 7']);
});

check('run_children_have_default_signal_dispositions', async (t) => {
  const { out } = await t.run("grep SigIgn /proc/self/status | cut -f2");
  assert.equal(BigInt(`0x${out}`) & 0x4007n, 0n, 'HUP, INT, QUIT, TERM');
});

check('run_does_not_wait_for_background_children', async (t) => {
  const name = uniqueMarker();
  t.cleanUpSteps.push(() => t.run(`pkill -f ${name.slice(0, 3)}[${name[3]}]${name.slice(4)}`));
  const { out } = await withTimeout(TIMEOUT_MS, 'the end', t.run(`sh -c 'sleep 300; : ${name}' & echo on`));
  assert.equal(out, 'on');
  await eventually('the child still runs', async () => (await t.countProcesses(name)) >= 1);
});

check('run_on_a_terminal_has_the_requested_size', async (t) => {
  const all = await t.collectStream('POST', '/command', { command: '[ -t 0 ] && [ -t 1 ] && stty size; echo $TERM', tty: true, cols: 101, rows: 31 });
  const printed = all.filter(({ type }) => type === 'stdout').map(({ text }) => text).join('');
  assert.equal(printed, '31 101\r\nxterm-256color\r\n');
  assert.equal(all.at(-1).type, 'execution_complete');
  for (const body of [{ command: 'x', tty: true, cols: 0 }, { command: 'x', tty: true, rows: 70_000 }]) {
    assert.equal((await t.http('POST', '/command', { body })).status, 400);
  }
  assert.equal((await t.run('[ -t 1 ] || echo none')).out, 'none', 'only on request');
});

check('run_cwd_that_expands_over_the_limit_is_refused', async (t) => {
  const body = { command: 'true', cwd: '$A'.repeat(40_000), envs: { A: 'x'.repeat(80_000) } };
  const { status, json } = await t.http('POST', '/command', { body });
  assert.deepEqual([status, json.code], [400, 'INVALID_REQUEST_BODY']);
  assert.match(json.message, /4096 bytes/);
});

// Regression: each of these made commands slow or impossible.
check('run_works_with_any_content_of_the_environment_file', async (t) => {
  const saved = `/tmp/${uniqueMarker()}`;
  await t.run(`touch "$EXECD_ENVS"; cp "$EXECD_ENVS" ${saved}`);
  t.cleanUpSteps.push(() => t.run(`cp ${saved} "$EXECD_ENVS"; rm ${saved}`));
  const laughs = 'echo L0=0123456789; for i in 1 2 3 4 5 6 7 8 9; do p=\'$L\'$((i-1)); echo "L$i=$p$p$p$p$p$p$p$p$p$p"; done';
  const long = "printf Y=; head -c 200000 /dev/zero | tr '\\0' y; echo";
  for (const bad of [laughs, long, "printf 'Z=a\\0b\\n'", "seq 40000 | sed 's/.*/N&=$N&/'", "printf A=; yes '${' | head -n 300000 | tr -d '\\n'"]) {
    await t.run(`{ echo GOOD=1; ${bad}; } > "$EXECD_ENVS"`);
    const { out, exitCode } = await withTimeout(TIMEOUT_MS, bad, t.run('echo $GOOD'));
    assert.deepEqual([out, exitCode], ['1', 0], bad);
  }
});
