// A TCP proxy between a browser and a server that simulates network failures.

import { once } from 'node:events';
import { connect, createServer } from 'node:net';

export class FlakyProxy {
  static async start(t, server) {
    const proxy = new FlakyProxy(Number(server.port));
    proxy.#listener.listen(0, '127.0.0.1');
    await once(proxy.#listener, 'listening');
    t.after(() => proxy.#stop());
    // A loopback address, so the server accepts the Host and Origin headers.
    proxy.base = `http://127.0.0.1:${proxy.#listener.address().port}`;
    return proxy;
  }

  #serverPort;
  #listener = createServer((client) => this.#accept(client));
  #pairs = new Set();
  #isDisconnected = false;
  #isStalled = false;
  /** Connections refused while disconnected. */
  refused = 0;

  constructor(serverPort) {
    this.#serverPort = serverPort;
  }

  #accept(client) {
    if (this.#isDisconnected) {
      this.refused += 1;
      return client.destroy();
    }
    const server = connect(this.#serverPort, '127.0.0.1');
    const pair = [client, server];
    this.#pairs.add(pair);
    for (const socket of pair) {
      socket.on('error', () => {});
      socket.on('close', () => {
        pair.forEach((other) => other.destroy());
        this.#pairs.delete(pair);
      });
    }
    this.#forward(pair);
  }

  #forward([client, server]) {
    if (this.#isStalled) return;
    client.pipe(server);
    server.pipe(client);
  }

  /** Closes all connections and refuses new ones. */
  disconnect() {
    this.#isDisconnected = true;
    for (const pair of this.#pairs) pair.forEach((socket) => socket.destroy());
  }

  reconnect() {
    this.#isDisconnected = false;
  }

  /** Keeps connections open and accepts new ones, but forwards nothing. */
  stall() {
    this.#isStalled = true;
    for (const pair of this.#pairs) {
      for (const socket of pair) {
        socket.unpipe();
        socket.pause();
      }
    }
  }

  resume() {
    this.#isStalled = false;
    for (const pair of this.#pairs) this.#forward(pair);
  }

  #stop() {
    this.disconnect();
    this.#listener.close();
  }
}
