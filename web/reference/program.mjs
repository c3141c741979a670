// The program under test: one request on its input, one line of output per cut.

import { spawn } from 'node:child_process';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline';

/** A model that thinks longer than this about a cut is stuck. */
const PATIENCE_MS = 60_000;

/** What to start: a binary, or a script for this Node. */
export function commandOf(path) {
  const whole = resolve(path);
  return whole.endsWith('.mjs') ? [process.execPath, whole] : [whole];
}

/** Yields { cut, offset, cols, rows, repaint } for each of the request's cuts, in order; `heard` gets what it said besides. */
export async function* repaints([command, ...args], request, heard) {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'] });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text) => (said = (said + text).slice(-2000)));
  const ended = new Promise((resolve) => {
    child.on('error', (error) => resolve(String(error)));
    child.on('close', (code, signal) => resolve(`it ended with ${signal ?? code}`));
  });
  child.stdin.on('error', () => {}); // It went away: `ended` says so.
  child.stdin.end(`${JSON.stringify(request)}\n`);
  const stuck = setTimeout(() => child.kill('SIGKILL'), PATIENCE_MS);
  try {
    let next = 0;
    for await (const line of createInterface({ input: child.stdout })) {
      if (next === request.cuts.length) break;
      stuck.refresh();
      const answer = JSON.parse(line);
      const cut = request.cuts[next];
      if (answer.cut !== cut) throw new Error(`asked for cut ${cut}, it answered ${line.slice(0, 200)}`);
      if (!(answer.offset >= 0 && answer.offset <= cut)) throw new Error(`cut ${cut}: its offset ${answer.offset} is not before`);
      yield { ...answer, repaint: Buffer.from(answer.repaint, 'base64') };
      next += 1;
    }
    if (next < request.cuts.length) {
      throw new Error(`no answer for cut ${request.cuts[next]}: ${await ended} ${said.trim()}`);
    }
    await ended;
    heard(said.trim());
  } finally {
    clearTimeout(stuck);
    child.kill();
  }
}
