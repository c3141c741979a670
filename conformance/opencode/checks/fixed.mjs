// Requests that the web client makes at its start.

import assert from 'node:assert/strict';
import { check } from '../../_shared/runner.mjs';
import { data } from '../support.mjs';

check('health_selects_the_api_of_the_web_client', async (t) => {
  const health = data(await t.sdkV2.global.health());
  assert.deepEqual([health.healthy, typeof health.version], [true, 'string']);
  const below = await t.raw('GET', '/api/health');
  assert.deepEqual([below.status, below.json.healthy, typeof below.json.pid], [200, true, 'number']);
});

check('document_is_openapi_and_names_every_route', async (t) => {
  const { json, type } = await t.raw('GET', '/doc');
  assert.match(type, /^application\/json/);
  assert.equal(json.openapi, '3.1.0');
  for (const path of ['/pty', '/pty/{id}', '/event', '/session/{id}/shell', '/api/pty/{id}/connect']) {
    assert.ok(json.paths[path]?.get ?? json.paths[path]?.post, path);
  }
});

check('path_and_project_are_those_of_the_requested_directory', async (t) => {
  for (const client of [t.sdkV1With({ directory: '/usr' }), t.sdkV2With({ directory: '/usr' })]) {
    const path = data(await client.path.get());
    assert.deepEqual([path.directory, path.worktree], ['/usr', '/usr']);
    assert.match(path.home, /^\//);
    const project = data(await client.project.current());
    assert.deepEqual([project.id, project.worktree, typeof project.time.created], ['global', '/usr', 'number']);
    assert.equal(data(await client.project.list()).length, 1);
  }
});

check('config_agents_providers_and_commands_have_the_expected_shapes', async (t) => {
  for (const client of [t.sdkV1, t.sdkV2]) {
    assert.match(data(await client.config.get()).shell, /^\//);
    const [agent] = data(await client.app.agents());
    assert.deepEqual([agent.name, agent.mode, agent.permission], ['build', 'primary', []]);
    assert.deepEqual(data(await client.provider.list()), { all: [], default: {}, connected: [] });
    assert.deepEqual(data(await client.config.providers()), { providers: [], default: {} });
    assert.deepEqual(data(await client.command.list()), []);
  }
});

check('unknown_paths_return_json_and_never_html', async (t) => {
  for (const [method, path] of [['GET', '/no/such/path'], ['GET', '/api/no-such'], ['POST', '/pty/x/y/z'], ['PATCH', '/pty']]) {
    const { status, type, json } = await t.raw(method, path);
    assert.ok([404, 405].includes(status), `${method} ${path}: ${status}`);
    assert.match(type, /^application\/json/);
    assert.equal(typeof json.data.message, 'string');
  }
  // The SDK would throw on HTML; it takes this JSON for an error.
  const result = await t.sdkV2.find.text({ pattern: 'x' });
  assert.deepEqual([result.response.status, result.error.name], [404, 'NotFoundError']);
});
