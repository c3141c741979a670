// Tests the harness itself: node selftest.mjs
// A program with complete repaints must pass, and one whose repaints lose a single detail must fail, for each detail.

import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { checkRepaints } from './reference.mjs';

const REPLAY = fileURLToPath(new URL('standins/replay.mjs', import.meta.url));
const SEED = 1;
const CUTS = 150;

/** Short streams; each loss is visible in at least one of them. */
const STREAMS = ['alternate', 'charsets', 'cursors', 'modes', 'tabs', 'titles'];

const losses = spawnSync(process.execPath, [REPLAY, '--list'], { encoding: 'utf8' }).stdout.trim().split('\n');
let failed = 0;
for (const loss of [undefined, ...losses]) {
  const failures = [];
  const args = loss ? ['--lose', loss] : [];
  await checkRepaints({
    program: [process.execPath, REPLAY, ...args],
    seed: SEED,
    cuts: CUTS,
    only: STREAMS,
    modes: ['plain'],
    report: (name, isOk, reason) => isOk || failures.push({ name, reason }),
  });
  const isOk = failures.length > 0 === (loss !== undefined);
  if (!isOk) failed += 1;
  const first = failures[0]?.reason.split('\n').slice(0, 3).join(' ') ?? '';
  const result = `${failures.length} of ${STREAMS.length} streams fail. ${first.slice(0, 160)}`;
  console.log(`${isOk ? 'ok' : 'FAIL'} ${loss ? `without ${loss}` : 'complete'}: ${result}`);
}
console.log(`${losses.length + 1 - failed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
