// Are repaints right? node reference.mjs --repaints PROGRAM [--seed N] [--cuts 1000] [--only NAME]... [--mode MODE]...
// The last line is `N passed, M failed`. See README.md.

import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';
import { commandOf } from './program.mjs';
import { streams } from './streams.mjs';

/** Cuts of a mode, of the 1,000 of a plain check. */
const MODES = {
  plain: { scrollback: 0, restart: false, share: 1 },
  restart: { scrollback: 0, restart: true, share: 0.3 },
  scrollback: { scrollback: 200, restart: false, share: 0.1 },
};

/**
 * Noise, and what is written to be mean: some states that it brings about cannot be brought about by any bytes (a character set that
 * belongs to another screen's saved cursor, half of a wide character under another one, a full line whose last cell was erased). In
 * `invalid`, xterm.js leaves an APC string at the first character that is not ASCII and prints the rest; the model does not, as most
 * terminals. So many of the cuts may differ; of what programs print, none.
 */
const MAY_DIFFER = { garbage: 0.1, invalid: 0.02, random: 0.1, 'random-resized': 0.05, wide: 0.005 };

/** Says `report(name, ok, why, done)` for each stream in each mode, as they come to their ends. */
export async function reference({ program, seed, cuts = 1000, only = [], modes = Object.keys(MODES), patience = 1, report }) {
  const tasks = streams(only).flatMap(({ name: stream }) => modes.map((name) => ({ stream, name })));
  await Promise.all(Array.from({ length: availableParallelism() }, async () => {
    const worker = new Worker(new URL('worker.mjs', import.meta.url));
    for (let task = tasks.shift(); task; task = tasks.shift()) {
      const { share, ...mode } = MODES[task.name];
      mode.cuts = Math.max(1, Math.round(cuts * share));
      const allowed = Math.floor(mode.cuts * (MAY_DIFFER[task.stream] ?? 0));
      worker.postMessage({ program, stream: task.stream, mode, seed, patience: allowed + patience });
      const [done] = await once(worker, 'message');
      const again = `node reference.mjs --repaints … --seed ${seed} --cuts ${cuts} --only ${task.stream} --mode ${task.name}`;
      report(`repaints_${task.stream}_${task.name}`, done.failures.length <= allowed, [...done.failures.slice(0, patience + 2), again].join('\n'), done);
    }
    await worker.terminate();
  }));
}

function randomSeed() {
  return Math.floor(Math.random() * 2 ** 32);
}

async function main() {
  const { values } = parseArgs({
    options: {
      repaints: { type: 'string' },
      seed: { type: 'string' },
      cuts: { type: 'string', default: '1000' },
      only: { type: 'string', multiple: true },
      mode: { type: 'string', multiple: true },
      failures: { type: 'string', default: '1' },
    },
  });
  if (!values.repaints) throw new Error('usage: node reference.mjs --repaints PROGRAM [--seed N] [--cuts N] [--only NAME]... [--mode MODE]...');
  const seed = values.seed === undefined ? randomSeed() : Number(values.seed);
  console.log(`seed ${seed}`);
  const tally = { passed: 0, failed: 0 };
  const report = (name, ok, why, done) => {
    tally[ok ? 'passed' : 'failed'] += 1;
    console.log(ok ? `ok ${name} (${done.cuts} cuts, ${done.probed} probed, ${done.ms} ms) ${done.said}` : `FAIL ${name}: ${why}`);
  };
  const { only, mode: modes, failures } = values;
  await reference({ program: commandOf(values.repaints), seed, cuts: Number(values.cuts), only, modes, patience: Number(failures), report });
  console.log(`${tally.passed} passed, ${tally.failed} failed`);
  process.exitCode = tally.failed === 0 ? 0 : 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
