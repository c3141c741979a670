// The Python part of a suite: its python/checks.py and python/context.py, run by python/run.py of this folder with the suite's own interpreter.

import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const RUN = fileURLToPath(new URL('python/run.py', import.meta.url));

/** `said` is all it printed, of which `tell` is given every piece as it comes; its last line is counted. */
export async function runPython(base, only, tell = () => {}) {
  const own = '.venv/bin/python';
  const flags = only.flatMap((name) => ['--only', name]);
  const child = spawn(existsSync(own) ? own : 'python3', ['-u', RUN, '--base-url', base, ...flags], {
    env: { ...process.env, PYTHONPATH: resolve('python') },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  const hear = (chunk) => {
    said += chunk;
    tell(chunk);
  };
  for await (const chunk of child.stdout) hear(chunk);
  const counted = said.match(/python: (\d+) passed, (\d+) failed\n$/);
  if (counted) return { said, passed: Number(counted[1]), failed: Number(counted[2]) };
  hear('FAIL python: it broke off\n');
  return { said, passed: 0, failed: 1 };
}
