// A fake server whose frames the test scripts, for situations that are hard to reach with a real server.

import { createServer } from 'node:http';
import { once } from 'node:events';
import { after } from 'node:test';
import { WebSocket, WebSocketServer } from 'ws';
import { Outlive } from '../../dist/index.js';

/**
 * `next()` resolves with the next connection. `info` is the process info that the server returns; tests may change it.
 */
export async function scripted(info = {}) {
  const state = { id: 'proc_scripted', tty: true, outputStart: 0, outputEnd: 0, sizePolicy: 'latest', ...info };
  const http = createServer((_, response) => response.end(JSON.stringify(state)));
  const sockets = new WebSocketServer({ server: http });
  const [accepted, waiting] = [[], []];
  sockets.on('connection', (socket, request) => {
    const connection = new Connection(socket, new URL(request.url, 'http://localhost').searchParams);
    const resolve = waiting.shift();
    if (resolve) resolve(connection);
    else accepted.push(connection);
  });
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  after(() => {
    for (const socket of sockets.clients) socket.terminate();
    http.close();
  });
  const url = `http://127.0.0.1:${http.address().port}`;
  const client = new Outlive({ url, WebSocket });
  const next = async () => accepted.shift() ?? new Promise((resolve) => waiting.push(resolve));
  return { info: state, client, process: client.process(state.id), next };
}

class Connection {
  #socket;
  /** Frames from the client: JSON frames as objects, binary frames as latin1 strings. */
  received = [];

  constructor(socket, query) {
    this.#socket = socket;
    this.query = Object.fromEntries(query);
    socket.on('message', (data, isBinary) => this.received.push(isBinary ? data.toString('latin1') : JSON.parse(data)));
  }

  ready(offset, fields = {}) {
    const defaults = { inputOffset: 0, role: this.query.role, flow: 'lossless', cols: 80, rows: 24 };
    return this.send({ type: 'ready', offset, ...defaults, ...fields });
  }

  send(frame) {
    this.#socket.send(JSON.stringify(frame));
    return this;
  }

  /** Sends one binary frame per piece. */
  bytes(...pieces) {
    for (const piece of pieces) this.#socket.send(Buffer.from(piece));
    return this;
  }

  repaint(offset, pieces, fields = {}) {
    const bytes = pieces.reduce((sum, piece) => sum + Buffer.byteLength(piece), 0);
    const defaults = { cols: 80, rows: 24, bytes, approximate: false };
    return this.send({ type: 'repaint', offset, ...defaults, ...fields }).bytes(...pieces);
  }

  exit(offset) {
    this.send({ type: 'exit', exitCode: 0, exitReason: 'exited', offset });
    this.#socket.close(1000);
  }

  lose() {
    this.#socket.terminate();
  }
}
