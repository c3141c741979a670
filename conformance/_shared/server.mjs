// A server of a suite's own, for what the common one is not: with a token, or with an address for one dialect.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * Starts the binary that xtask names; `env` is what its environment has beyond ours. `url` is the main address, `dialects[NAME]` those of dialects;
 * `stop` ends it.
 */
export async function startServer(flags, { dialects = [], env = {} } = {}) {
  const binary = process.env.OUTLIVE_BINARY;
  assert.ok(binary, 'OUTLIVE_BINARY must name the binary for this check');
  const dir = await mkdtemp(join(tmpdir(), 'outlive-conformance-'));
  const own = dialects.flatMap((name) => ['--dialect', `${name}=127.0.0.1:0`]);
  const child = spawn(binary, ['serve', '--listen', '127.0.0.1:0', '--state-dir', dir, ...own, ...flags], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const stop = async () => {
    const ended = new Promise((resolve) => child.once('exit', resolve));
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGTERM');
      await ended;
    }
    await rm(dir, { recursive: true, force: true });
  };
  let said = '';
  const wanted = 1 + dialects.length;
  const addresses = () => [...said.matchAll(/^(?:listening|(\S+)) on (https?:\/\/\S+)\n/gm)];
  try {
    await new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('exit', (code) => reject(new Error(`the server ended with ${code}: ${said}`)));
      child.stdout.on('data', (chunk) => {
        said += chunk;
        if (addresses().length >= wanted) resolve();
      });
    });
  } catch (error) {
    await stop();
    throw error;
  }
  const found = addresses();
  const url = found.find(([, name]) => name === undefined)[2];
  return { url, dialects: Object.fromEntries(found.filter(([, name]) => name).map(([, name, at]) => [name, at])), stop };
}
