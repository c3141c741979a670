// The cable between a browser and a server. It can be pulled, and it can be one that nothing comes through.

import { once } from 'node:events';
import { connect, createServer } from 'node:net';

export class Cable {
  static async lay(t, server) {
    const cable = new Cable(Number(server.port));
    cable.#listener.listen(0, '127.0.0.1');
    await once(cable.#listener, 'listening');
    t.after(() => cable.#remove());
    const { port } = cable.#listener.address();
    // The name in the address stays a number of this machine: Host and Origin are what they are without it.
    cable.base = `http://127.0.0.1:${port}`;
    return cable;
  }

  #to;
  #listener = createServer((near) => this.#join(near));
  #pairs = new Set();
  #isPulled = false;
  #isStalled = false;
  refused = 0;

  constructor(to) {
    this.#to = to;
  }

  #join(near) {
    if (this.#isPulled) {
      this.refused += 1;
      return near.destroy();
    }
    const far = connect(this.#to, '127.0.0.1');
    const pair = [near, far];
    this.#pairs.add(pair);
    for (const socket of pair) {
      socket.on('error', () => {});
      socket.on('close', () => {
        pair.forEach((other) => other.destroy());
        this.#pairs.delete(pair);
      });
    }
    this.#flow(pair);
  }

  #flow([near, far]) {
    if (this.#isStalled) return;
    near.pipe(far);
    far.pipe(near);
  }

  get connections() {
    return this.#pairs.size;
  }

  /** Both ends notice at once. */
  pull() {
    this.#isPulled = true;
    for (const pair of this.#pairs) pair.forEach((socket) => socket.destroy());
  }

  plugIn() {
    this.#isPulled = false;
  }

  /** Neither end notices: connections stay, also new ones are taken, and nothing arrives. */
  stall() {
    this.#isStalled = true;
    for (const pair of this.#pairs) {
      for (const socket of pair) {
        socket.unpipe();
        socket.pause();
      }
    }
  }

  goOn() {
    this.#isStalled = false;
    for (const pair of this.#pairs) this.#flow(pair);
  }

  async #remove() {
    this.pull();
    this.#listener.close();
  }
}
