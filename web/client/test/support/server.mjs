// Starts a real server for a test file.

import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after } from 'node:test';
import { WebSocket } from 'ws';
import { Outlive } from '../../dist/index.js';

const BINARY = process.env.OUTLIVE_BINARY ?? new URL('../../../../target/debug/outlive', import.meta.url).pathname;

/** `client()` creates a client. `killServer()` kills the server process, which the holder replaces. */
export async function serve(...flags) {
  const stateDir = await mkdtemp(join(tmpdir(), 'outlive-client-'));
  const child = spawn(BINARY, ['serve', '--listen', '127.0.0.1:0', '--history', join(stateDir, 'history'), ...flags], {
    env: { ...process.env, OUTLIVE_STATE_DIR: stateDir },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  after(async () => {
    child.kill('SIGTERM');
    await new Promise((resolve) => child.once('exit', resolve));
    await rm(stateDir, { recursive: true, force: true });
  });
  for await (const line of createInterface({ input: child.stdout })) {
    const found = /http:\/\/[\d.]+:\d+/.exec(line);
    if (!found) continue;
    const url = found[0];
    const client = (options = {}) => new Outlive({ url, WebSocket, ...options });
    const killServer = async (token) => {
      // fetch may reuse a connection to the previous server and only now find it dead.
      const { serverPid } = await until('health', () =>
        client({ token })
          .health()
          .catch(() => undefined),
      );
      process.kill(serverPid, 'SIGKILL');
    };
    return { url, client, killServer };
  }
  throw new Error('the server did not print its address');
}

const UNTIL_TIMEOUT_MS = 20_000;

/** Polls `probe` until it returns a truthy value, and returns that value. */
export async function until(description, probe) {
  const deadline = Date.now() + UNTIL_TIMEOUT_MS;
  while (Date.now() < deadline) {
    const value = await probe();
    if (value) return value;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`timed out waiting for: ${description}`);
}
