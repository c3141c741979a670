// Serves the page, and lets it through to the terminal of its room and to nothing else. The token stays here.

import { mkdir, mkdtemp, readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Outlive } from '@outlive/client';

const { OUTLIVE_URL = 'http://127.0.0.1:2468', OUTLIVE_TOKEN: token, PORT = '8080' } = process.env;
const outlive = new Outlive({ url: OUTLIVE_URL, ...(token && { token }) });
const upstream = new URL(OUTLIVE_URL);
const here = fileURLToPath(new URL('.', import.meta.url));
const folders = await mkdtemp(join(tmpdir(), 'rooms-'));
const TYPES = { '.html': 'text/html', '.mjs': 'text/javascript', '.js': 'text/javascript', '.css': 'text/css' };
/** Whose connection it is, by the address that outlive sees. */
const names = new Map();

/** The room's own shell, in a folder of its own, without the variables of outlive; started again if somebody has ended it. */
async function enter(room) {
  const cwd = join(folders, room);
  await mkdir(cwd, { recursive: true });
  const shell = { command: 'bash', args: ['--norc'], tty: true, cwd, envMode: 'fresh', env: { HOME: cwd, PS1: `${room}$ ` }, noNewPrivileges: true };
  const process = await outlive.start({ ...shell, tag: `room-${room}`, label: room, annotations: { room }, ifTagExists: 'return' });
  const info = await process.info();
  return info.status === 'exited' ? process.start() : info;
}

/** Who is there, and when each of them has typed last. */
async function presence(room) {
  const attachments = await outlive.process(`tag:room-${room}`).attachments();
  return attachments.map(({ id, role, peer, lastInputAtMs, sizes }) => {
    const isTyping = lastInputAtMs != null && Date.now() - lastInputAtMs < 3_000;
    return { id, name: names.get(peer) ?? 'somebody', role, sizes, isTyping };
  });
}

async function answer(path) {
  if (path === '/rooms') return (await outlive.processes()).map(({ annotations }) => annotations?.room).filter(Boolean);
  const [, room, , rest] = /^\/in\/([a-z0-9-]{1,30})\/as\/([^/]{1,90})\/(.*)$/.exec(path) ?? [];
  if (rest === 'presence') return presence(room);
  // What the client asks before it connects.
  if (rest?.startsWith('v1/processes/')) return enter(room);
  return undefined;
}

const server = createServer(async ({ url, method }, response) => {
  try {
    const { pathname } = new URL(url, 'http://localhost');
    const found = method === 'GET' ? await answer(pathname) : undefined;
    if (found) return response.setHeader('content-type', 'application/json').end(JSON.stringify(found));
    // The URL has taken out every `..`.
    const file = pathname.startsWith('/node_modules/') ? pathname : { '/': '/page.html', '/page.mjs': '/page.mjs' }[pathname];
    const body = file && (await readFile(join(here, file)));
    response.writeHead(body ? 200 : 404, { 'content-type': TYPES[extname(file ?? '')] ?? 'text/plain' }).end(body);
  } catch (error) {
    response.writeHead(error.code === 'ENOENT' ? 404 : 502).end(error.message);
  }
});

server.on('upgrade', (request, socket) => {
  const [, room, name, query] = /^\/in\/([a-z0-9-]{1,30})\/as\/([\w.~%-]{1,90})\/v1\/processes\/[^/]+\/connect\?(.*)$/.exec(request.url) ?? [];
  // A page of somebody else could connect as well, from the browser of one of us.
  if (!room || !origins.includes(request.headers.origin)) return socket.destroy();
  const through = connect(upstream.port || 80, upstream.hostname, () => {
    const peer = `${through.localAddress}:${through.localPort}`;
    names.set(peer, decodeURIComponent(name));
    through.on('close', () => names.delete(peer));
    const headers = { host: upstream.host, connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13' };
    headers['sec-websocket-key'] = request.headers['sec-websocket-key'];
    if (token) headers.authorization = `Bearer ${token}`;
    const lines = Object.entries(headers).map(([header, value]) => `${header}: ${value}\r\n`).join('');
    through.write(`GET /v1/processes/tag:room-${room}/connect?${query} HTTP/1.1\r\n${lines}\r\n`);
    through.pipe(socket).pipe(through);
  });
  through.on('error', () => socket.destroy());
  through.on('close', () => socket.destroy());
  socket.on('error', () => through.destroy());
  socket.on('close', () => through.destroy());
});

let origins = [];
server.listen(Number(PORT), '127.0.0.1', () => {
  const { port } = server.address();
  origins = [`http://127.0.0.1:${port}`, `http://localhost:${port}`];
  console.log(`open ${origins[0]}`);
});
