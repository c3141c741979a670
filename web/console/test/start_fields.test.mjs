import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readArgv, readEnv } from '../checked/dialogs/start_fields.js';

test('arguments_are_lines_as_they_are', () => {
  assert.deepEqual(readArgv('printf\n%s  x\n\nlast\n'), ['printf', '%s  x', '', 'last']);
  assert.deepEqual(readArgv(''), []);
});

test('variables_are_names_and_values', () => {
  assert.deepEqual(readEnv('A=1\n\nB=x=y \nC='), { A: '1', B: 'x=y ', C: '' });
  assert.throws(() => readEnv('NO VALUE'), /NO VALUE/);
  assert.throws(() => readEnv('=x'), /NAME=value/);
});
