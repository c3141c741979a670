import assert from 'node:assert/strict';
import { test } from 'node:test';
import { age, commandLine, moodOf, stateOf } from '../checked/live/words.js';

test('a_state_is_said_in_a_word_or_two', () => {
  const said = (process) => `${moodOf(process)}: ${stateOf(process)}`;
  assert.equal(said({ status: 'running' }), 'running: running');
  assert.equal(said({ status: 'running', stopRequested: true }), 'running: stopping');
  assert.equal(said({ status: 'created' }), 'waiting: not started');
  assert.equal(said({ status: 'exited', exitReason: 'exited', exitCode: 0 }), 'quiet: exit 0');
  assert.equal(said({ status: 'exited', exitReason: 'exited', exitCode: 3 }), 'failed: exit 3');
  assert.equal(said({ status: 'exited', exitReason: 'exited', signal: 'SIGSEGV' }), 'failed: SIGSEGV');
  assert.equal(said({ status: 'exited', exitReason: 'killed', signal: 'SIGKILL' }), 'failed: killed SIGKILL');
  assert.equal(said({ status: 'exited', exitReason: 'stopped', exitCode: 1 }), 'quiet: stopped, exit 1');
});

test('a_command_line_can_be_typed_again', () => {
  assert.equal(commandLine({ command: 'sh', args: ['-c', "echo it's", ''] }), "sh -c 'echo it'\\''s' ''");
  assert.equal(commandLine({ command: 'a | b', shell: true }), 'a | b');
});

test('ages_are_coarse', () => {
  assert.deepEqual([0, 59_000, 61_000, 3_660_000, 90_000_000].map(age), ['0s', '59s', '1m', '1h 1m', '1d 1h']);
});
