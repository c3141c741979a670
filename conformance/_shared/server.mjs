// Starts a server for checks that need other flags than the common one: a token, or a dialect's own address.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * Starts the binary that `OUTLIVE_BINARY` names. `env` is added to its environment. Returns the main address `url`, the
 * dialects' addresses `dialects[NAME]`, and `stop`.
 */
export async function startServer(flags, { dialects = [], env = {} } = {}) {
  const binary = process.env.OUTLIVE_BINARY;
  assert.ok(binary, 'this check needs OUTLIVE_BINARY');
  const dir = await mkdtemp(join(tmpdir(), 'outlive-conformance-'));
  const dialectFlags = dialects.flatMap((name) => ['--dialect', `${name}=127.0.0.1:0`]);
  const history = flags.includes('--history') ? [] : ['--history', join(dir, 'history')];
  const directories = ['--state-dir', dir, ...history];
  const child = spawn(binary, ['serve', '--listen', '127.0.0.1:0', ...directories, ...dialectFlags, ...flags], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const stop = async () => {
    const exited = new Promise((resolve) => child.once('exit', resolve));
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGTERM');
      await exited;
    }
    await rm(dir, { recursive: true, force: true });
  };
  let output = '';
  const expectedCount = 1 + dialects.length;
  const addresses = () => [...output.matchAll(/^(?:listening|(\S+)) on (https?:\/\/\S+)\n/gm)];
  try {
    await new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('exit', (code) => reject(new Error(`the server exited with ${code}: ${output}`)));
      child.stdout.on('data', (chunk) => {
        output += chunk;
        if (addresses().length >= expectedCount) resolve();
      });
    });
  } catch (error) {
    await stop();
    throw error;
  }
  const found = addresses();
  const url = found.find(([, name]) => name === undefined)[2];
  const named = found.filter(([, name]) => name).map(([, name, address]) => [name, address]);
  return { url, dialects: Object.fromEntries(named), stop };
}

/** A context for a server of its own without history: output that memory has overwritten is gone. */
export async function withoutHistory(t, Context) {
  const server = await startServer(['--no-token', '--history', 'off']);
  t.cleanUpSteps.push(() => server.stop());
  const own = new Context(server.url);
  t.cleanUpSteps.push(() => own.cleanUp());
  return own;
}
