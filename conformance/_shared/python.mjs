// Runs the Python part of a suite: its python/checks.py and python/context.py, by python/run.py of this directory with
// the
// suite's own interpreter.

import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const RUN = fileURLToPath(new URL('python/run.py', import.meta.url));

/** Returns the whole `output` and the counts of its last line. `onOutput` receives each chunk as it arrives. */
export async function runPython(base, only, onOutput = () => {}) {
  const interpreter = '.venv/bin/python';
  const flags = only.flatMap((name) => ['--only', name]);
  const child = spawn(existsSync(interpreter) ? interpreter : 'python3', ['-u', RUN, '--base-url', base, ...flags], {
    env: { ...process.env, PYTHONPATH: resolve('python') },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  const append = (chunk) => {
    output += chunk;
    onOutput(chunk);
  };
  for await (const chunk of child.stdout) append(chunk);
  const counts = output.match(/python: (\d+) passed, (\d+) failed\n$/);
  if (counts) return { output, passed: Number(counts[1]), failed: Number(counts[2]) };
  append('FAIL python: the run ended without a total\n');
  return { output, passed: 0, failed: 1 };
}
