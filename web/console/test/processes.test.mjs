import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isNewer } from '../checked/state/processes.js';

test('a later status or generation is newer', () => {
  const at = (generation, status) => ({ generation, status });
  assert.ok(isNewer(at(1, 'running'), at(1, 'created')));
  assert.ok(!isNewer(at(1, 'running'), at(1, 'exited')));
  assert.ok(isNewer(at(2, 'running'), at(1, 'exited')));
  assert.ok(!isNewer(at(1, 'exited'), at(2, 'running')));
  assert.ok(!isNewer(at(1, 'running'), at(1, 'running')));
});
