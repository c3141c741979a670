// The REST endpoints besides the process service.

import assert from 'node:assert/strict';
import { check } from '../../_shared/runner.mjs';

check('health_is_204_without_a_body', async (t) => {
  const response = await fetch(`${t.url}/health`);
  assert.equal(response.status, 204);
  assert.equal(response.headers.get('cache-control'), 'no-store');
  assert.equal(await response.text(), '');
  const sandbox = await t.sandbox();
  assert.equal(await sandbox.isRunning(), true);
});

check('metrics_contain_every_number', async (t) => {
  const metrics = await (await fetch(`${t.url}/metrics`)).json();
  const fields = 'ts cpu_count cpu_used_pct mem_total mem_used mem_cache mem_total_mib mem_used_mib disk_used disk_total';
  for (const field of fields.split(' ')) assert.equal(typeof metrics[field], 'number', field);
  assert.ok(metrics.cpu_count >= 1 && metrics.mem_total > metrics.mem_used && metrics.disk_total >= metrics.disk_used);
  assert.ok(Math.abs(metrics.ts - Date.now() / 1000) < 60);
});

const init = (t, body) =>
  fetch(`${t.url}/init`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });

check('init_sets_variables_user_and_cwd_and_envs_shows_them', async (t) => {
  t.cleanUpSteps.push(() => init(t, { envVars: {}, defaultUser: '', defaultWorkdir: '' }));
  const done = await init(t, { envVars: { COLOUR: 'blue' }, defaultUser: 'daemon', defaultWorkdir: '/usr' });
  assert.equal(done.status, 204);
  assert.match(done.headers.get('x-envd-version'), /^0\.6\.([4-9]|\d\d)$/);
  assert.deepEqual(await (await fetch(`${t.url}/envs`)).json(), { COLOUR: 'blue', E2B_SANDBOX: 'true' });
  const { stdout } = await t.run('echo $COLOUR $E2B_SANDBOX; id -un; pwd');
  assert.equal(stdout, 'blue true\ndaemon\n/usr\n');
  const overridden = await t.run('echo $COLOUR; id -un; pwd', { envs: { COLOUR: 'red' }, user: 'root', cwd: '/bin' });
  assert.match(overridden.stdout, /^red\nroot\n(\/usr)?\/bin\n$/);
});

check('init_with_an_older_timestamp_is_ignored', async (t) => {
  t.cleanUpSteps.push(() => init(t, { envVars: {} }));
  const at = Date.now();
  const iso = (ms) => new Date(ms).toISOString();
  assert.equal((await init(t, { envVars: { N: 'new' }, timestamp: iso(at) })).status, 204);
  assert.equal((await init(t, { envVars: { N: 'old' }, timestamp: iso(at - 1000) })).status, 204);
  assert.equal((await (await fetch(`${t.url}/envs`)).json()).N, 'new');
  for (const envVars of [{ '': 'x' }, { 'A=B': 'x' }, { A: '\0' }]) assert.equal((await init(t, { envVars })).status, 400);
  const wrong = await init(t, { timestamp: 'yesterday' });
  assert.equal(wrong.status, 400);
  assert.equal((await wrong.json()).code, 400);
});

check('rest_errors_have_code_and_message', async (t) => {
  for (const [method, path, status] of [['GET', '/nowhere', 404], ['DELETE', '/health', 405], ['POST', '/init', 415]]) {
    const response = await fetch(`${t.url}${path}`, { method });
    assert.equal(response.status, status, path);
    const body = await response.json();
    assert.equal(body.code, status);
    assert.equal(typeof body.message, 'string');
  }
});
