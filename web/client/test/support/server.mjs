// A real server per test file.

import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after } from 'node:test';
import { WebSocket } from 'ws';
import { Outlive } from '../../dist/index.js';

const BINARY = process.env.OUTLIVE_BINARY ?? new URL('../../../../target/debug/outlive', import.meta.url).pathname;

/** `client()` makes a client; `killServer()` kills the server part, which the holder replaces. */
export async function serve(...flags) {
  const folder = await mkdtemp(join(tmpdir(), 'outlive-client-'));
  const child = spawn(BINARY, ['serve', '--listen', '127.0.0.1:0', ...flags], {
    env: { ...process.env, OUTLIVE_STATE_DIR: folder },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  after(async () => {
    child.kill('SIGTERM');
    await new Promise((resolve) => child.once('exit', resolve));
    await rm(folder, { recursive: true, force: true });
  });
  for await (const line of createInterface({ input: child.stdout })) {
    const found = /http:\/\/[\d.]+:\d+/.exec(line);
    if (!found) continue;
    const url = found[0];
    const client = (options = {}) => new Outlive({ url, WebSocket, ...options });
    const killServer = async (token) => {
      // A connection of the server before may have been kept by fetch, and is noticed to be dead now.
      const { serverPid } = await until('health', () => client({ token }).health().catch(() => undefined));
      process.kill(serverPid, 'SIGKILL');
    };
    return { url, client, killServer };
  }
  throw new Error('the server did not say where it listens');
}

/** Looks until it is so. */
export async function until(what, look) {
  const end = Date.now() + 20_000;
  while (Date.now() < end) {
    const found = await look();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`not within 20 s: ${what}`);
}
