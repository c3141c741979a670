// Makes a check independent of the machine's speed: a gate at which programs wait, and time limits that are long
// enough.

import { execFileSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from './expect.mjs';

/** Programs of a server on this machine wait at the gate until the check releases them. */
export class Gate {
  /** `cleanUpSteps` are the clean-up steps of the check; the gate adds one that releases all waiting programs. */
  constructor(cleanUpSteps) {
    const directory = mkdtempSync(join(tmpdir(), 'outlive-conformance-gate-'));
    this.fifo = join(directory, 'gate');
    this.arrivals = join(directory, 'arrivals');
    writeFileSync(this.arrivals, '');
    execFileSync('mkfifo', [this.fifo]);
    // Opened for reading too, so that the pipe keeps a release for a program that arrives later.
    this.open = openSync(this.fifo, 'r+');
    cleanUpSteps.push(() => {
      // The steps may run twice, and another file may have the descriptor's number by then.
      if (this.open !== undefined) closeSync(this.open);
      this.open = undefined;
      rmSync(directory, { recursive: true, force: true });
    });
  }

  /** A shell command that waits at the gate. */
  get waitCommand() {
    return `echo >> ${this.arrivals}; read go < ${this.fifo}`;
  }

  /** Returns when `count` programs have arrived at the gate. */
  waitForArrivals(count = 1) {
    return eventually(`${count} at the gate`, () => readFileSync(this.arrivals).length >= count);
  }

  release(count = 1) {
    if (this.open !== undefined) writeSync(this.open, '\n'.repeat(count));
  }
}

/**
 * Runs a program into its time limit. The program must have started by then, and how long that takes depends on the
 * machine. Calls `run` with longer and longer limits until `hasStarted(result)`; returns the limit and the result.
 */
export async function retryWithLongerLimits(run, hasStarted) {
  for (let ms = 500; ; ms *= 4) {
    const result = await run(ms);
    if (hasStarted(result) || ms > 5_000) return [ms, result];
  }
}
