// Serves the page and forwards its requests to the terminal of its room, and to nothing else. The token stays here.

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
const exampleDir = fileURLToPath(new URL('.', import.meta.url));
const roomsDir = await mkdtemp(join(tmpdir(), 'rooms-'));
const TYPES = { '.html': 'text/html', '.mjs': 'text/javascript', '.js': 'text/javascript', '.css': 'text/css' };
/** Names of the people in the rooms, by the peer address that outlive reports. */
const names = new Map();

/**
 * Starts the shell of a room if it does not run. It has its own directory and does not inherit outlive's environment.
 */
async function enterRoom(room) {
  const cwd = join(roomsDir, room);
  await mkdir(cwd, { recursive: true });
  const shell = {
    command: 'bash',
    args: ['--norc'],
    tty: true,
    cwd,
    envMode: 'fresh',
    env: { HOME: cwd, PS1: `${room}$ ` },
    noNewPrivileges: true,
  };
  const process = await outlive.start({
    ...shell,
    tag: `room-${room}`,
    label: room,
    annotations: { room },
    ifTagExists: 'return',
  });
  const info = await process.info();
  return info.status === 'exited' ? process.start() : info;
}

/** The people in a room, with role and activity. */
async function presence(room) {
  const attachments = await outlive.process(`tag:room-${room}`).attachments();
  return attachments.map(({ id, role, peer, lastInputAtMs, sizes }) => {
    const isTyping = lastInputAtMs != null && Date.now() - lastInputAtMs < 3_000;
    return { id, name: names.get(peer) ?? 'unknown', role, sizes, isTyping };
  });
}

async function handleGet(path) {
  if (path === '/rooms') return (await outlive.processes()).map(({ annotations }) => annotations?.room).filter(Boolean);
  const [, room, , rest] = /^\/in\/([a-z0-9-]{1,30})\/as\/([^/]{1,90})\/(.*)$/.exec(path) ?? [];
  if (rest === 'presence') return presence(room);
  // The client requests the process info before it connects.
  if (rest?.startsWith('v1/processes/')) return enterRoom(room);
  return undefined;
}

const server = createServer(async ({ url, method }, response) => {
  try {
    const { pathname } = new URL(url, 'http://localhost');
    const result = method === 'GET' ? await handleGet(pathname) : undefined;
    if (result) return response.setHeader('content-type', 'application/json').end(JSON.stringify(result));
    // Parsing the URL has removed every `..`.
    const file = pathname.startsWith('/node_modules/')
      ? pathname
      : { '/': '/page.html', '/page.mjs': '/page.mjs' }[pathname];
    const body = file && (await readFile(join(exampleDir, file)));
    response.writeHead(body ? 200 : 404, { 'content-type': TYPES[extname(file ?? '')] ?? 'text/plain' }).end(body);
  } catch (error) {
    response.writeHead(error.code === 'ENOENT' ? 404 : 502).end(error.message);
  }
});

server.on('upgrade', (request, socket) => {
  const [, room, name, query] =
    /^\/in\/([a-z0-9-]{1,30})\/as\/([\w.~%-]{1,90})\/v1\/processes\/[^/]+\/connect\?(.*)$/.exec(request.url) ?? [];
  // Pages of other sites could also connect from a visitor's browser; their Origin gives them away.
  if (!room || !origins.includes(request.headers.origin)) return socket.destroy();
  const connection = connect(upstream.port || 80, upstream.hostname, () => {
    const peer = `${connection.localAddress}:${connection.localPort}`;
    names.set(peer, decodeURIComponent(name));
    connection.on('close', () => names.delete(peer));
    const headers = { host: upstream.host, connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13' };
    headers['sec-websocket-key'] = request.headers['sec-websocket-key'];
    if (token) headers.authorization = `Bearer ${token}`;
    const lines = Object.entries(headers)
      .map(([header, value]) => `${header}: ${value}\r\n`)
      .join('');
    connection.write(`GET /v1/processes/tag:room-${room}/connect?${query} HTTP/1.1\r\n${lines}\r\n`);
    connection.pipe(socket).pipe(connection);
  });
  connection.on('error', () => socket.destroy());
  connection.on('close', () => socket.destroy());
  socket.on('error', () => connection.destroy());
  socket.on('close', () => connection.destroy());
});

let origins = [];
server.listen(Number(PORT), '127.0.0.1', () => {
  const { port } = server.address();
  origins = [`http://127.0.0.1:${port}`, `http://localhost:${port}`];
  console.log(`open ${origins[0]}`);
});
