// A server that says what a test tells it to say: for frames that a real one sends only when much has happened before.

import { createServer } from 'node:http';
import { once } from 'node:events';
import { after } from 'node:test';
import { WebSocket, WebSocketServer } from 'ws';
import { Outlive } from '../../dist/index.js';

/** `next()` is the next connection; `info` is what the process is said to be, and may be changed. */
export async function scripted(info = {}) {
  const state = { id: 'proc_scripted', tty: true, outputStart: 0, outputEnd: 0, sizePolicy: 'latest', ...info };
  const http = createServer((_, response) => response.end(JSON.stringify(state)));
  const sockets = new WebSocketServer({ server: http });
  const [come, waiting] = [[], []];
  sockets.on('connection', (socket, request) => {
    const connection = new Connection(socket, new URL(request.url, 'http://localhost').searchParams);
    const wanted = waiting.shift();
    if (wanted) wanted(connection);
    else come.push(connection);
  });
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  after(() => {
    for (const socket of sockets.clients) socket.terminate();
    http.close();
  });
  const url = `http://127.0.0.1:${http.address().port}`;
  const client = new Outlive({ url, WebSocket });
  const next = async () => come.shift() ?? new Promise((resolve) => waiting.push(resolve));
  return { info: state, client, process: client.process(state.id), next };
}

class Connection {
  #socket;
  /** Everything that came from the client: objects and, of binary frames, strings. */
  received = [];

  constructor(socket, query) {
    this.#socket = socket;
    this.query = Object.fromEntries(query);
    socket.on('message', (data, isBinary) => this.received.push(isBinary ? data.toString('latin1') : JSON.parse(data)));
  }

  ready(offset, more = {}) {
    return this.say({ type: 'ready', offset, inputOffset: 0, role: this.query.role, flow: 'lossless', cols: 80, rows: 24, ...more });
  }

  say(frame) {
    this.#socket.send(JSON.stringify(frame));
    return this;
  }

  /** In as many frames as there are pieces. */
  bytes(...pieces) {
    for (const piece of pieces) this.#socket.send(Buffer.from(piece));
    return this;
  }

  repaint(offset, pieces, more = {}) {
    const bytes = pieces.reduce((sum, piece) => sum + Buffer.byteLength(piece), 0);
    return this.say({ type: 'repaint', offset, cols: 80, rows: 24, bytes, approximate: false, ...more }).bytes(...pieces);
  }

  exit(offset) {
    this.say({ type: 'exit', exitCode: 0, exitReason: 'exited', offset });
    this.#socket.close(1000);
  }

  lose() {
    this.#socket.terminate();
  }
}
