// What makes a check independent of how fast the machine is: a gate at which programs wait for the check, and a time limit that is long enough.

import { execFileSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from './facts.mjs';

/** Programs of a server on this machine wait at it. Until the check lets them pass none of them goes on, however long that takes. */
export class Gate {
  /** `atEnd` are the last steps of the check. Who still waits then may go. */
  constructor(atEnd) {
    const folder = mkdtempSync(join(tmpdir(), 'outlive-conformance-gate-'));
    this.fifo = join(folder, 'gate');
    this.book = join(folder, 'arrivals');
    writeFileSync(this.book, '');
    execFileSync('mkfifo', [this.fifo]);
    // Both of its ends: what is written is kept for who has not come yet.
    this.open = openSync(this.fifo, 'r+');
    atEnd.push(() => {
      // The steps may be taken twice, and by then the number may be somebody else's.
      if (this.open !== undefined) closeSync(this.open);
      this.open = undefined;
      rmSync(folder, { recursive: true, force: true });
    });
  }

  /** Shell text that waits here. */
  get wait() {
    return `echo >> ${this.book}; read go < ${this.fifo}`;
  }

  /** Returns when so many have come to the gate. */
  arrived(count = 1) {
    return eventually(`${count} at the gate`, () => readFileSync(this.book).length >= count);
  }

  letPass(count = 1) {
    if (this.open !== undefined) writeSync(this.open, '\n'.repeat(count));
  }
}

/**
 * A program that is to run into a time limit must have begun by then, and how long that takes depends on the machine. Asks with longer and longer limits
 * until an answer shows that it had; answers with the limit as well.
 */
export async function longEnough(ask, hadBegun) {
  for (let ms = 500; ; ms *= 4) {
    const answer = await ask(ms);
    if (hadBegun(answer) || ms > 5_000) return [ms, answer];
  }
}
