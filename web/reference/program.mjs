// Runs the program under test: one request on its stdin, one line on its stdout per cut.

import { spawn } from 'node:child_process';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline';

/** Timeout per cut. */
const RESPONSE_TIMEOUT_MS = 60_000;

/** The command line of a program: a binary, or a script for this Node. */
export function commandFor(path) {
  const absolute = resolve(path);
  return absolute.endsWith('.mjs') ? [process.execPath, absolute] : [absolute];
}

/**
 * Yields { cut, offset, cols, rows, repaint } for each cut of the request, in order. `onStderr` gets the end of stderr.
 */
export async function* repaints([command, ...args], request, onStderr) {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'] });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text) => (stderr = (stderr + text).slice(-2000)));
  const exited = new Promise((resolve) => {
    child.on('error', (error) => resolve(String(error)));
    child.on('close', (code, signal) => resolve(`the program exited with ${signal ?? code}`));
  });
  child.stdin.on('error', () => {}); // The program exited early; `exited` reports it.
  child.stdin.end(`${JSON.stringify(request)}\n`);
  const timeout = setTimeout(() => child.kill('SIGKILL'), RESPONSE_TIMEOUT_MS);
  try {
    let next = 0;
    for await (const line of createInterface({ input: child.stdout })) {
      if (next === request.cuts.length) break;
      timeout.refresh();
      const response = JSON.parse(line);
      const cut = request.cuts[next];
      if (response.cut !== cut) throw new Error(`requested cut ${cut}, got ${line.slice(0, 200)}`);
      if (!(response.offset >= 0 && response.offset <= cut)) {
        throw new Error(`cut ${cut}: offset ${response.offset} is not before the cut`);
      }
      yield { ...response, repaint: Buffer.from(response.repaint, 'base64') };
      next += 1;
    }
    if (next < request.cuts.length) {
      throw new Error(`no response for cut ${request.cuts[next]}: ${await exited} ${stderr.trim()}`);
    }
    await exited;
    onStderr(stderr.trim());
  } finally {
    clearTimeout(timeout);
    child.kill();
  }
}
