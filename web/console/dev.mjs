// Serves dist/ under /ui and forwards all other requests to a running server:
//   node dev.mjs --server http://127.0.0.1:2468 [--port 2480]

import { createServer, request } from 'node:http';
import { readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { pipeline } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

/** The same policy as the server's. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "font-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const FILES = {
  '/ui': ['index.html', 'text/html; charset=utf-8'],
  '/ui/': ['index.html', 'text/html; charset=utf-8'],
  '/ui/app.js': ['app.js', 'text/javascript; charset=utf-8'],
  '/ui/app.css': ['app.css', 'text/css; charset=utf-8'],
};
const DIST = fileURLToPath(new URL('./dist/', import.meta.url));

const { values } = parseArgs({ options: { server: { type: 'string' }, port: { type: 'string', default: '2480' } } });
if (!values.server) throw new Error('--server is missing; for example --server http://127.0.0.1:2468');
const target = new URL(values.server);

/** Host and Origin become the server's own, since it rejects others. */
function forwardedHeaders(headers) {
  const forwarded = { ...headers, host: target.host };
  if (forwarded.origin) forwarded.origin = target.origin;
  return forwarded;
}

async function serveFile(response, [name, type]) {
  response.writeHead(200, {
    'content-type': type,
    'content-security-policy': CONTENT_SECURITY_POLICY,
    'x-content-type-options': 'nosniff',
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
  });
  response.end(await readFile(DIST + name));
}

function forward(incoming, response) {
  const { method, url: path } = incoming;
  const headers = forwardedHeaders(incoming.headers);
  const outgoing = request({ host: target.hostname, port: target.port, method, path, headers }, (upstream) => {
    response.writeHead(upstream.statusCode, upstream.headers);
    // `pipeline` also forwards that the upstream response was cut off.
    pipeline(upstream, response, () => {});
  });
  outgoing.on('error', () => response.destroy());
  response.on('close', () => outgoing.destroy());
  incoming.pipe(outgoing);
}

const proxy = createServer(async (incoming, response) => {
  const file = FILES[new URL(incoming.url, target).pathname];
  if (file) await serveFile(response, file);
  else forward(incoming, response);
});
proxy.on('upgrade', (incoming, socket, head) => {
  const upstream = connect(Number(target.port), target.hostname, () => {
    const lines = Object.entries(forwardedHeaders(incoming.headers)).map(([name, value]) => `${name}: ${value}`);
    upstream.write(`${incoming.method} ${incoming.url} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
    upstream.write(head);
    upstream.pipe(socket).pipe(upstream);
  });
  upstream.on('error', () => socket.destroy());
  socket.on('error', () => upstream.destroy());
});
proxy.listen(Number(values.port), '127.0.0.1', () => {
  console.log(`console at http://127.0.0.1:${proxy.address().port}/ui`);
});
