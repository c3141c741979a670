// Does the harness find what a repaint loses? node selftest.mjs
// A program that loses nothing must pass, and one that loses one thing must fail, for each thing there is.

import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { reference } from './reference.mjs';

const REPLAY = fileURLToPath(new URL('standins/replay.mjs', import.meta.url));
const SEED = 1;
const CUTS = 150;

/** Streams short enough to go through many times; each loss shows in one of them at least. */
const STREAMS = ['alternate', 'charsets', 'cursors', 'modes', 'tabs', 'titles'];

const losses = spawnSync(process.execPath, [REPLAY, '--list'], { encoding: 'utf8' }).stdout.trim().split('\n');
let wrong = 0;
for (const loss of [undefined, ...losses]) {
  const failures = [];
  const lose = loss ? ['--lose', loss] : [];
  await reference({
    program: [process.execPath, REPLAY, ...lose],
    seed: SEED,
    cuts: CUTS,
    only: STREAMS,
    modes: ['plain'],
    report: (name, ok, why) => ok || failures.push({ name, why }),
  });
  const ok = (failures.length > 0) === (loss !== undefined);
  if (!ok) wrong += 1;
  const first = failures[0]?.why.split('\n').slice(0, 3).join(' ') ?? '';
  console.log(`${ok ? 'ok' : 'FAIL'} ${loss ? `without ${loss}` : 'complete'}: ${failures.length} of ${STREAMS.length} streams fail. ${first.slice(0, 160)}`);
}
console.log(`${losses.length + 1 - wrong} passed, ${wrong} failed`);
process.exitCode = wrong === 0 ? 0 : 1;
