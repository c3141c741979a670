// Facts that checks wait for, and output that can be foretold. Knows no server.

import assert from 'node:assert/strict';

/** Longer than anything should take, even on a busy machine. */
export const PATIENCE_MS = 20_000;

/** Waits until `look` finds something, and returns it. */
export async function eventually(what, look) {
  const until = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > until) throw new Error(`never came: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** `what` may be a function, for what is to be said only then. */
export function within(ms, what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${ms} ms: ${typeof what === 'function' ? what() : what}`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** The error that a promise must end with, by its name. */
export async function refused(promise, name, pattern = /./) {
  const error = await promise.then(
    (value) => assert.fail(`expected ${name}, got ${JSON.stringify(value)?.slice(0, 200)}`),
    (reason) => reason,
  );
  assert.equal(error.name, name, error.message);
  assert.match(error.message, pattern);
  return error;
}

/** A word that nothing else on this machine has in its command line. */
export const mark = () => `mark${Math.random().toString(36).slice(2)}`;

/** Shell text that prints the first `length` bytes of the natural numbers, one a line. */
export const printNumbers = (length) => `seq 1 ${length} 2>/dev/null | head -c ${length}`;

/** The same bytes, made here. */
export function numbers(length) {
  const bytes = Buffer.alloc(length);
  for (let n = 1, at = 0; at < length; n += 1) at += bytes.write(`${n}\n`, at, 'latin1');
  return bytes;
}

/** A clean-up step may fail: the check may have done it already, and the server may be what is broken. */
export async function settle(step) {
  try {
    await step();
  } catch {
    // Nothing depends on it.
  }
}
