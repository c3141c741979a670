// The console as the server will show it, before a running server: node dev.mjs --server http://127.0.0.1:2468 [--port 0]
// Serves dist/ under /ui with its policy, and hands everything else on.

import { createServer, request } from 'node:http';
import { readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { pipeline } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

/** What the console needs, and no more. */
export const POLICY = [
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

/** Listens on loopback; resolves with its address. */
export async function serveConsole(server, port = 0) {
  const target = new URL(server);
  /** The server lets in only pages of its own, which ours are to be. */
  const handedOn = (headers) => {
    const given = { ...headers, host: target.host };
    if (given.origin) given.origin = target.origin;
    return given;
  };
  const front = createServer(async (ask, answer) => {
    const file = FILES[new URL(ask.url, server).pathname];
    if (file) {
      const headers = { 'content-type': file[1], 'content-security-policy': POLICY, 'x-content-type-options': 'nosniff' };
      answer.writeHead(200, { ...headers, 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' });
      return answer.end(await readFile(DIST + file[0]));
    }
    const to = request(
      { host: target.hostname, port: target.port, method: ask.method, path: ask.url, headers: handedOn(ask.headers) },
      (from) => {
        answer.writeHead(from.statusCode, from.headers);
        // An answer that breaks off there breaks off here.
        pipeline(from, answer, () => {});
      },
    );
    to.on('error', () => answer.destroy());
    answer.on('close', () => to.destroy());
    ask.pipe(to);
  });
  front.on('upgrade', (ask, socket, head) => {
    const to = connect(Number(target.port), target.hostname, () => {
      const lines = Object.entries(handedOn(ask.headers)).map(([name, value]) => `${name}: ${value}`);
      to.write(`${ask.method} ${ask.url} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
      to.write(head);
      to.pipe(socket).pipe(to);
    });
    to.on('error', () => socket.destroy());
    socket.on('error', () => to.destroy());
  });
  await new Promise((resolve) => front.listen(port, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${front.address().port}`, close: () => (front.closeAllConnections(), front.close()) };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({ options: { server: { type: 'string' }, port: { type: 'string', default: '2480' } } });
  if (!values.server) throw new Error('say where outlive is: --server http://127.0.0.1:2468');
  const { url } = await serveConsole(values.server, Number(values.port));
  console.log(`console at ${url}/ui`);
}
