// Some clients run every command in a login shell. A shell that a check kills while its profile runs pyenv leaves a lock
// behind, and every later login shell waits a minute for it.

import { existsSync } from 'node:fs';
import { readdir, readFile, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';

const LOCK = join(homedir(), '.pyenv', 'shims', '.pyenv-shim');

/** Removes the lock if no process that could hold it is running. */
export async function removeStaleLoginLock() {
  if (existsSync(LOCK) && !(await isRehashRunning())) await rm(LOCK, { force: true });
}

async function isRehashRunning() {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  for (const pid of pids) {
    // It may have ended in the meantime.
    const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
    if (command.includes('pyenv-rehash')) return true;
  }
  return false;
}
