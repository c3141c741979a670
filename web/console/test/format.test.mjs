import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commandLine, formatAge, statusClass, statusLabel } from '../checked/state/format.js';

test('a status has a class and a label', () => {
  const status = (process) => `${statusClass(process)}: ${statusLabel(process)}`;
  assert.equal(status({ status: 'running' }), 'running: running');
  assert.equal(status({ status: 'running', stopRequested: true }), 'running: stopping');
  assert.equal(status({ status: 'created' }), 'waiting: not started');
  assert.equal(status({ status: 'lost' }), 'failed: lost');
  assert.equal(status({ status: 'exited', exitReason: 'exited', exitCode: 0 }), 'finished: exit 0');
  assert.equal(status({ status: 'exited', exitReason: 'exited', exitCode: 3 }), 'failed: exit 3');
  assert.equal(status({ status: 'exited', exitReason: 'exited', signal: 'SIGSEGV' }), 'failed: SIGSEGV');
  assert.equal(status({ status: 'exited', exitReason: 'killed', signal: 'SIGKILL' }), 'failed: killed SIGKILL');
  assert.equal(status({ status: 'exited', exitReason: 'stopped', exitCode: 1 }), 'finished: stopped, exit 1');
});

test('arguments in a command line are quoted for the shell', () => {
  assert.equal(commandLine({ command: 'sh', args: ['-c', "echo it's", ''] }), "sh -c 'echo it'\\''s' ''");
  assert.equal(commandLine({ command: 'a | b', shell: true }), 'a | b');
});

test('ages have at most two units', () => {
  assert.deepEqual([0, 59_000, 61_000, 3_660_000, 90_000_000].map(formatAge), ['0s', '59s', '1m', '1h 1m', '1d 1h']);
});
