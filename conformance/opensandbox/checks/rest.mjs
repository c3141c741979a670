// Ping, metrics, isolation, errors.

import assert from 'node:assert/strict';
import { check } from '../../_shared/runner.mjs';

check('ping_of_the_sdk_succeeds', async (t) => {
  assert.equal(await t.sdk().health.ping(), true);
  const { status, bytes } = await t.http('GET', '/ping');
  assert.deepEqual([status, bytes.length], [200, 0]);
});

check('metrics_of_the_sdk_have_every_number', async (t) => {
  const metrics = await t.sdk().metrics.getMetrics();
  assert.ok(metrics.cpuCount >= 1 && metrics.memoryTotalMiB > 10 && metrics.memoryUsedMiB > 1);
  assert.ok(metrics.cpuUsedPercentage >= 0 && metrics.cpuUsedPercentage <= 100);
  assert.ok(Math.abs(metrics.timestamp - Date.now()) < 60_000);
});

check('metrics_watch_sends_one_object_per_line', async (t) => {
  const { status, headers, response, abort } = await t.stream('GET', '/metrics/watch');
  assert.equal(status, 200);
  assert.match(headers['content-type'], /^text\/event-stream/);
  let seen = '';
  for await (const chunk of response) {
    seen += chunk;
    if (seen.split('\n').length > 2) break;
  }
  abort();
  const [first, second] = seen.split('\n').map((line) => line && JSON.parse(line));
  assert.ok(first.cpu_count >= 1 && second.timestamp > first.timestamp);
});

check('isolation_is_reported_as_unavailable', async (t) => {
  const { status, json } = await t.http('GET', '/v1/isolated/capabilities');
  assert.deepEqual([status, json.available], [200, false]);
  for (const [method, path] of [['POST', '/v1/isolated/session'], ['GET', '/v1/isolated/sessions']]) {
    const { status, json } = await t.http(method, path, { body: method === 'POST' ? {} : undefined });
    assert.deepEqual([status, json.code], [501, 'NOT_SUPPORTED']);
  }
});

check('code_interpreter_is_not_supported', async (t) => {
  for (const [method, path] of [['POST', '/code'], ['POST', '/code/context'], ['GET', '/code/contexts'], ['DELETE', '/code']]) {
    const { status, json } = await t.http(method, path);
    assert.deepEqual([status, json.code], [501, 'NOT_SUPPORTED'], path);
  }
});

check('errors_are_json_everywhere', async (t) => {
  for (const [method, path, expected] of [['GET', '/nowhere', 404], ['PUT', '/command', 405], ['GET', '/files/info', 404]]) {
    const { status, json, headers } = await t.http(method, path);
    assert.equal(status, expected);
    assert.equal(headers.get('content-type'), 'application/json; charset=utf-8');
    assert.ok(json.code && json.message);
  }
});

check('invalid_bodies_are_400', async (t) => {
  for (const body of ['{', '[]', '{"command":5}', '{"command":"x","timeout":-1}', '{"command":"x","gid":1}', '{}', '{"command":" "}']) {
    const { status, json } = await t.http('POST', '/command', { body });
    assert.deepEqual([status, json?.code], [400, 'INVALID_REQUEST_BODY'], body);
  }
  const page = await t.http('POST', '/command', { body: '{"command":"true"}', headers: { 'content-type': 'text/plain' } });
  assert.deepEqual([page.status, page.json.code], [415, 'INVALID_REQUEST_BODY'], 'a content type that pages may send without a preflight');
});
