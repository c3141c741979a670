// Waits and expectations that every suite uses, and output with known content. Does not know the server.

import assert from 'node:assert/strict';

/** Longer than any step takes, even on a busy machine. */
export const TIMEOUT_MS = 20_000;

/** Polls until `probe` returns a truthy value, and returns that value. */
export async function eventually(what, probe) {
  const deadline = Date.now() + TIMEOUT_MS;
  for (;;) {
    const found = await probe();
    if (found) return found;
    if (Date.now() > deadline) throw new Error(`timed out waiting for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Rejects if `promise` takes longer than `ms`. `what` may be a function, which is then called at the timeout. */
export function withTimeout(ms, what, promise) {
  let timer;
  const timeout = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${ms} ms: ${typeof what === 'function' ? what() : what}`)), ms);
  });
  return Promise.race([promise, timeout]).finally(() => clearTimeout(timer));
}

/** Asserts that a promise rejects with an error of this name, and returns the error. */
export async function expectRejection(promise, name, pattern = /./) {
  const error = await promise.then(
    (value) => assert.fail(`expected ${name}, got ${JSON.stringify(value)?.slice(0, 200)}`),
    (reason) => reason,
  );
  assert.equal(error.name, name, error.message);
  assert.match(error.message, pattern);
  return error;
}

/** A word that no other command line on this machine contains. */
export const uniqueMarker = () => `mark${Math.random().toString(36).slice(2)}`;

/** A shell command that prints the first `length` bytes of the natural numbers, one per line. */
export const printNumbers = (length) => `seq 1 ${length} 2>/dev/null | head -c ${length}`;

/** The bytes that `printNumbers` prints. */
export function numbers(length) {
  const bytes = Buffer.alloc(length);
  for (let n = 1, at = 0; at < length; n += 1) at += bytes.write(`${n}\n`, at, 'latin1');
  return bytes;
}

/** Runs a clean-up step. It may fail: the check may have done it already, or the server may be broken. */
export async function ignoreErrors(step) {
  try {
    await step();
  } catch {
    // The result of a check does not depend on its clean-up.
  }
}
