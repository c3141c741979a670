// Compares repaints with xterm.js; see README.md for the options. The last line of output is `N passed, M failed`.

import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';
import { commandFor } from './program.mjs';
import { streams } from './streams.mjs';

/** `share`: number of cuts relative to a plain check. */
const MODES = {
  plain: { scrollback: 0, restart: false, share: 1 },
  restart: { scrollback: 0, restart: true, share: 0.3 },
  scrollback: { scrollback: 200, restart: false, share: 0.1 },
};

/**
 * The fraction of cuts that may differ, for synthetic streams. They reach states that no bytes can restore (a character
 * set that belongs to another screen's saved cursor, half of a wide character under another one, a full line whose last
 * cell was erased). In `invalid`, xterm.js ends an APC string at the first character that is not ASCII and prints the
 * rest; the model does not, like most terminals. In streams of real programs no cut may differ.
 */
const ALLOWED_DIFFERENCES = { garbage: 0.1, invalid: 0.02, random: 0.1, 'random-resized': 0.05, wide: 0.005 };

/** Calls `report(name, isOk, reason, result)` when a stream is checked in a mode. */
export async function checkRepaints({
  program,
  seed,
  cuts = 1000,
  only = [],
  modes = Object.keys(MODES),
  maxFailures = 1,
  report,
}) {
  const tasks = streams(only).flatMap(({ name: stream }) => modes.map((name) => ({ stream, name })));
  await Promise.all(
    Array.from({ length: availableParallelism() }, async () => {
      const worker = new Worker(new URL('worker.mjs', import.meta.url));
      for (let task = tasks.shift(); task; task = tasks.shift()) {
        const { share, ...mode } = MODES[task.name];
        mode.cuts = Math.max(1, Math.round(cuts * share));
        const allowed = Math.floor(mode.cuts * (ALLOWED_DIFFERENCES[task.stream] ?? 0));
        worker.postMessage({ program, stream: task.stream, mode, seed, maxFailures: allowed + maxFailures });
        const [result] = await once(worker, 'message');
        const selection = `--only ${task.stream} --mode ${task.name}`;
        const command = `node reference.mjs --repaints … --seed ${seed} --cuts ${cuts} ${selection}`;
        const reason = [...result.failures.slice(0, maxFailures + 2), command].join('\n');
        report(`repaints_${task.stream}_${task.name}`, result.failures.length <= allowed, reason, result);
      }
      await worker.terminate();
    }),
  );
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
  if (!values.repaints)
    throw new Error(
      'usage: node reference.mjs --repaints PROGRAM [--seed N] [--cuts N] [--only NAME]... [--mode MODE]...',
    );
  const seed = values.seed === undefined ? randomSeed() : Number(values.seed);
  console.log(`seed ${seed}`);
  const tally = { passed: 0, failed: 0 };
  const report = (name, isOk, reason, { cuts, probed, ms, stderr }) => {
    tally[isOk ? 'passed' : 'failed'] += 1;
    console.log(isOk ? `ok ${name} (${cuts} cuts, ${probed} probed, ${ms} ms) ${stderr}` : `FAIL ${name}: ${reason}`);
  };
  const { only, mode: modes } = values;
  const program = commandFor(values.repaints);
  await checkRepaints({
    program,
    seed,
    cuts: Number(values.cuts),
    only,
    modes,
    maxFailures: Number(values.failures),
    report,
  });
  console.log(`${tally.passed} passed, ${tally.failed} failed`);
  process.exitCode = tally.failed === 0 ? 0 : 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
