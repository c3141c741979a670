// getProcessConfig, setProcessConfig.

import assert from 'node:assert/strict';
import { check } from '../../_shared/runner.mjs';
import { assertProblem, expectProblem } from '../support.mjs';

// These two need a server with unchanged limits.
check('config_has_the_original_defaults', async (t) => {
  const { maxConcurrentProcesses, ...others } = await t.agent.getProcessConfig();
  assert.equal(typeof maxConcurrentProcesses, 'number');
  assert.deepEqual(others, {
    defaultRunTimeoutMs: 30_000,
    maxRunTimeoutMs: 300_000,
    maxOutputBytes: 1_048_576,
    maxLogBytesPerProcess: 10_485_760,
    maxInputBytesPerRequest: 65_536,
  });
});

check('config_default_process_limit_is_1024', async (t) => {
  assert.equal((await t.agent.getProcessConfig()).maxConcurrentProcesses, 1024);
});

check('config_is_stored', async (t) => {
  await t.changeLimits({});
  const wanted = {
    maxConcurrentProcesses: 77,
    defaultRunTimeoutMs: 11_000,
    maxRunTimeoutMs: 22_000,
    maxOutputBytes: 3_333,
    maxLogBytesPerProcess: 444_444,
    maxInputBytesPerRequest: 5_555,
  };
  assert.deepEqual(await t.agent.setProcessConfig(wanted), wanted);
  assert.deepEqual(await t.agent.getProcessConfig(), wanted);
});

check('config_rejects_zero', async (t) => {
  await t.changeLimits({});
  const before = await t.agent.getProcessConfig();
  assert.equal(Object.keys(before).length, 6);
  for (const field of Object.keys(before)) {
    await expectProblem(t.agent.setProcessConfig({ ...before, [field]: 0 }), 400, { type: 'invalid_request' });
  }
  assert.deepEqual(await t.agent.getProcessConfig(), before, 'a refused change changes nothing');
});

check('config_default_timeout_is_clamped_to_the_maximum', async (t) => {
  await t.changeLimits({});
  const before = await t.agent.getProcessConfig();
  const after = await t.agent.setProcessConfig({ ...before, defaultRunTimeoutMs: 9_000, maxRunTimeoutMs: 4_000 });
  assert.deepEqual([after.defaultRunTimeoutMs, after.maxRunTimeoutMs], [4_000, 4_000]);
});

check('config_requires_every_field', async (t) => {
  await t.changeLimits({});
  const before = await t.agent.getProcessConfig();
  assert.equal(Object.keys(before).length, 6);
  for (const field of Object.keys(before)) {
    const reply = await t.json('POST', '/v1/processes/config', { ...before, [field]: undefined });
    assert.equal(reply.status, 422, `without ${field}`);
  }
  assert.deepEqual(await t.agent.getProcessConfig(), before);
});

check('config_missing_field_is_named_in_a_problem', async (t) => {
  await t.changeLimits({});
  const before = await t.agent.getProcessConfig();
  const reply = await t.json('POST', '/v1/processes/config', { ...before, maxOutputBytes: undefined });
  assert.equal(reply.headers.get('content-type'), 'application/problem+json');
  const problem = await reply.json();
  assertProblem(problem, 422);
  assert.match(JSON.stringify(problem), /maxOutputBytes/);
});
