import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseArgv, parseEnv } from '../checked/dialogs/start.js';

test('arguments are unchanged lines', () => {
  assert.deepEqual(parseArgv('printf\n%s  x\n\nlast\n'), ['printf', '%s  x', '', 'last']);
  assert.deepEqual(parseArgv(''), []);
});

test('variables are NAME=value lines', () => {
  assert.deepEqual(parseEnv('A=1\n\nB=x=y \nC='), { A: '1', B: 'x=y ', C: '' });
  assert.throws(() => parseEnv('NO VALUE'), /NO VALUE/);
  assert.throws(() => parseEnv('=x'), /NAME=value/);
});
