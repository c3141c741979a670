// Foreground commands.

import assert from 'node:assert/strict';
import { uniqueMarker, expectRejection } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { HOME, data } from '../support.mjs';

check('start_returns_both_streams_and_the_exit', async (t) => {
  const result = await t.run('echo out; echo err >&2');
  assert.deepEqual({ ...result }, { exitCode: 0, error: undefined, stdout: 'out\n', stderr: 'err\n' });
});

check('start_streams_output_while_the_command_runs', async (t) => {
  const seen = [];
  let first;
  const started = new Promise((resolve) => { first = resolve; });
  const running = t.run('echo first; head -n 1; echo last', {
    background: true, stdin: true, timeoutMs: 0, onStdout: (text) => { seen.push(text); first(); },
  });
  const handle = await running;
  t.pids.add(handle.pid);
  await started;
  assert.equal(seen.join(''), 'first\n');
  await handle.sendStdin('go\n');
  assert.equal((await handle.wait()).stdout, 'first\ngo\nlast\n');
});

check('start_pid_is_the_one_of_the_shell', async (t) => {
  const handle = await t.background('echo $$; sleep 300');
  await t.waitForOutput(handle.pid, '\\d+\\n');
  assert.equal((await t.nativeOutput(handle.pid)).toString(), `${handle.pid}\n`);
});

check('start_environment_does_not_inherit_the_servers', async (t) => {
  const { stdout } = await t.run('env', { envs: { A: '1', B: 'x y\nz' } });
  const names = stdout.split('\n').filter((line) => line.includes('=')).map((line) => line.split('=')[0]);
  const expected = ['A', 'B', 'E2B_SANDBOX', 'HOME', 'LOGNAME', 'OUTLIVE_PROCESS_ID', 'PATH', 'PWD', 'SHELL', 'SHLVL', 'USER', '_'];
  assert.deepEqual(names.sort(), expected);
  assert.match(stdout, /B=x y\nz\n/);
  assert.match(stdout, new RegExp(`HOME=${HOME}\n`));
});

check('start_user_is_selected_by_basic_auth', async (t) => {
  assert.equal((await t.run('id -un', { user: 'daemon' })).stdout, 'daemon\n');
  const home = await t.collectStream('Start', t.start('/bin/sh', ['-c', 'echo $HOME $USER $LOGNAME'], { envs: {} }), {
    headers: { authorization: `Basic ${Buffer.from('daemon:').toString('base64')}` },
  });
  assert.match(data(home.events).toString(), /^\/\S* daemon daemon\n$/);
  await expectRejection(t.run('true', { user: 'nobody-has-this-name' }), 'AuthenticationError', /invalid username: 'nobody-has-this-name'/);
});

check('start_cwd_may_be_absolute_relative_or_home', async (t) => {
  const at = async (cwd) => (await t.run('pwd', { cwd })).stdout;
  assert.equal(await at('/usr'), '/usr\n');
  const home = await at(undefined);
  assert.equal(await at('~'), home);
  assert.equal(await at('.'), home);
});

check('start_bad_cwd_is_invalid_argument', async (t) => {
  await expectRejection(t.run('true', { cwd: '/no/such/directory' }), 'InvalidArgumentError', /cwd '\/no\/such\/directory' does not exist/);
  await expectRejection(t.run('true', { cwd: '/etc/passwd' }), 'InvalidArgumentError', /cwd|error starting process/);
});

check('start_missing_command_is_exit_127', async (t) => {
  const error = await expectRejection(t.run('no-such-command-here'), 'CommandExitError', /exit status 127/);
  assert.equal(error.exitCode, 127);
  assert.match(error.stderr, /command not found/);
  for (const [cmd, status] of [['/no/such/program', 127], ['no-such-program', 127], ['/etc/passwd', 126]]) {
    const { events, end } = await t.collectStream('Start', t.start(cmd));
    assert.ok(events[0].start.pid > 0, 'a start event comes first, as from a shell');
    assert.equal(events.at(-1).end.exitCode, status, cmd);
    assert.ok(data(events, 'stderr').length > 0);
    assert.deepEqual(end, {});
  }
});

check('start_without_stdin_reads_end_of_file', async (t) => {
  assert.equal((await t.run('cat; echo done')).stdout, 'done\n');
});

check('list_shows_running_processes_as_requested', async (t) => {
  const word = uniqueMarker();
  const handle = await t.background(`sleep 300; : ${word}`, { cwd: '/usr', envs: { A: 'b' } });
  const sandbox = await t.sandbox();
  const found = (await sandbox.commands.list()).find(({ pid }) => pid === handle.pid);
  assert.deepEqual(found.args, ['-l', '-c', `sleep 300; : ${word}`]);
  assert.deepEqual([found.cmd, found.cwd, found.envs], ['/bin/bash', '/usr', { A: 'b', HOME }]);
  assert.equal(found.tag, undefined);
});

check('list_omits_exited_processes', async (t) => {
  const sandbox = await t.sandbox();
  for (let round = 0; round < 10; round += 1) {
    const handle = await t.background('echo x');
    await handle.wait();
    const listed = await sandbox.commands.list();
    assert.ok(!listed.some(({ pid }) => pid === handle.pid), 'not listed after the end event');
  }
  const handle = await t.background('sleep 300');
  assert.ok((await sandbox.commands.list()).some(({ pid }) => pid === handle.pid));
});
