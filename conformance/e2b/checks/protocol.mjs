// The Connect protocol: errors are where clients expect them, and invalid input is harmless.

import assert from 'node:assert/strict';
import { check } from '../../_shared/runner.mjs';
import { data, envelope } from '../support.mjs';

check('unary_responses_are_plain_json', async (t) => {
  const { status, type, json } = await t.call('List', {});
  assert.deepEqual([status, type], [200, 'application/json']);
  assert.ok(json.processes === undefined || Array.isArray(json.processes));
  const missing = await t.call('SendSignal', { process: { pid: 999999 }, signal: 9 });
  assert.deepEqual([missing.status, missing.type], [404, 'application/json']);
  assert.deepEqual(missing.json, { code: 'not_found', message: 'process with pid 999999 not found' });
});

check('stream_content_type_has_no_parameters', async (t) => {
  const { headers, end } = await t.collectStream('Start', t.start('/bin/true'));
  assert.equal(headers['content-type'], 'application/connect+json');
  assert.deepEqual(end, {});
});

check('invalid_bodies_are_invalid_argument', async (t) => {
  for (const body of ['{', 'null x', '[]', '"x"', '{"process":5}', '{"process":{"pid":"x"}}', '{"process":{"pid":-1}}', '\xff']) {
    const { status, json } = await t.call('CloseStdin', Buffer.from(body, 'latin1'));
    assert.deepEqual([status, json.code], [400, 'invalid_argument'], body);
  }
  for (const body of ['{', '{"process":5}', '{"process":{"cmd":5}}', '{}', '{"process":{}}', '{"process":{"cmd":"x","envs":{"a=b":"c"}}}']) {
    const { end } = await t.collectStream('Start', Buffer.from(body));
    assert.equal(end.error.code, 'invalid_argument', body);
  }
  const nul = await t.collectStream('Start', t.start('/bin/echo', ['a\0b']));
  assert.equal(nul.end.error.code, 'invalid_argument');
});

check('invalid_envelopes_are_reported_in_the_end_envelope', async (t) => {
  const start = Buffer.from(JSON.stringify(t.start('/bin/true')));
  const cases = {
    invalid_argument: [Buffer.alloc(0), Buffer.from([0, 0, 0, 0, 9, 0x7b]), envelope(0x40, start), Buffer.concat([envelope(0, start), envelope(0, start)])],
    unimplemented: [envelope(1, start)],
    resource_exhausted: [Buffer.from([0, 0xff, 0xff, 0xff, 0xff])],
  };
  for (const [code, bodies] of Object.entries(cases)) {
    for (const body of bodies) assert.equal((await t.collectStream('Start', undefined, { body })).end.error.code, code);
  }
});

check('invalid_headers_are_refused', async (t) => {
  const version = await t.call('List', {}, { headers: { 'connect-protocol-version': '2' } });
  assert.equal(version.json.code, 'invalid_argument');
  const packed = await t.call('List', {}, { headers: { 'content-encoding': 'gzip' } });
  assert.equal(packed.json.code, 'unimplemented');
  const stream = await t.collectStream('Start', t.start('/bin/true'), { headers: { 'connect-content-encoding': 'gzip' } });
  assert.equal(stream.end.error.code, 'unimplemented');
  const plain = await t.call('List', {}, { headers: { 'content-encoding': 'identity' } });
  assert.equal(plain.status, 200);
  assert.equal(plain.type, 'application/json');
  for (const [method, type] of [['List', 'text/plain'], ['List', 'application/connect+json'], ['Start', 'application/json'], ['Start', 'application/grpc']]) {
    const response = await fetch(`${t.url}/process.Process/${method}`, { method: 'POST', headers: { 'content-type': type }, body: '{}' });
    assert.equal(response.status, 415, `${method} ${type}`);
    assert.match(response.headers.get('accept-post'), /^application\//);
  }
  assert.equal((await t.call('Nonsense', {})).status, 404);
  assert.equal((await fetch(`${t.url}/process.Process/List`)).status, 405);
});

check('json_accepts_all_protobuf_spellings', async (t) => {
  const stream = await t.stream('Start', { process: { cmd: '/bin/cat', args: null, envs: null, cwd: null, unknown: 1 }, pty: null, tag: null, stdin: null });
  const { pid } = JSON.parse((await stream.envelopes.next()).value.payload).event.start;
  t.pids.add(pid);
  for (const [selector, text, bytes] of [[`${pid}`, '-_8=', [0xfb, 0xff]], [pid, '+/8', [0xfb, 0xff]], [pid, 'Cg', [0x0a]]]) {
    const { status, json } = await t.call('SendInput', { process: { pid: selector, tag: null }, input: { stdin: text, pty: null } });
    assert.deepEqual([status, json], [200, {}]);
    const { event } = JSON.parse((await stream.envelopes.next()).value.payload);
    assert.deepEqual([...data([event])], bytes);
  }
});

check('message_over_the_limit_is_refused', async (t) => {
  const huge = { process: { pid: 1 }, input: { stdin: 'A'.repeat(3 << 20) } };
  const { status, json } = await t.call('SendInput', huge);
  assert.deepEqual([status, json.code], [429, 'resource_exhausted']);
});

check('http2_without_tls_works_on_the_same_port', async (t) => {
  const { connect } = await import('node:http2');
  const client = connect(t.base);
  t.cleanUpSteps.push(() => client.close());
  const request = client.request({ ':method': 'POST', ':path': '/e2b/process.Process/List', 'content-type': 'application/json' });
  request.end('{}');
  const status = await new Promise((resolve, reject) => {
    request.on('response', (headers) => resolve(headers[':status']));
    request.on('error', reject);
    client.on('error', reject);
  });
  assert.equal(status, 200);
});
