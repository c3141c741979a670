// Registers the checks of a suite and runs each with a time limit and one line of output.

import { removeStaleLoginLock } from './login_lock.mjs';

const TIME_LIMIT_SECONDS = 60;
const registered = [];
let failRunning = null;

/** Registers a check. It passes if `fn` returns, and fails if `fn` throws or exceeds the time limit. */
export function check(name, fn, { seconds = TIME_LIMIT_SECONDS } = {}) {
  if (registered.some((other) => other.name === name)) throw new Error(`two checks are named ${name}`);
  registered.push({ name, fn, seconds });
}

export const names = () => registered.map(({ name }) => name);

/**
 * Runs the checks one after another and counts the results. `makeContext` makes a context with a `cleanUp` method for
 * each check. The caller prints the total.
 */
export async function runAll(makeContext, only = []) {
  // An unhandled rejection fails the check that is running instead of ending the whole run. An AbortError belongs to
  // the
  // clean-up of an earlier check, which already has its result.
  process.on('unhandledRejection', (error) => error?.name !== 'AbortError' && failRunning?.(error));
  const tally = { passed: 0, failed: 0 };
  for (const entry of registered) {
    if (only.length > 0 && !only.includes(entry.name)) continue;
    await removeStaleLoginLock();
    const error = await runOne(makeContext, entry);
    tally[error === null ? 'passed' : 'failed'] += 1;
    console.log(error === null ? `ok ${entry.name}` : `FAIL ${entry.name}: ${oneLine(error)}`);
  }
  return tally;
}

async function runOne(makeContext, { fn, seconds }) {
  const t = makeContext();
  let timer;
  const timeout = new Promise((_, reject) => {
    failRunning = reject;
    timer = setTimeout(() => reject(new Error(`not done within ${seconds} s`)), seconds * 1000);
  });
  timeout.catch(() => {});
  try {
    await Promise.race([fn(t), timeout]);
    return null;
  } catch (error) {
    return error ?? new Error('the check threw no error object');
  } finally {
    clearTimeout(timer);
    failRunning = null;
    await t.cleanUp();
  }
}

function oneLine(error) {
  // The message of some clients' errors is only a title; the server's detail is in the problem document.
  const detail = error?.problem?.detail ? ` (${error.status}: ${error.problem.detail})` : '';
  const reason = (error instanceof Error ? error.message || error.name : String(error)) + detail;
  return reason.replace(/\s+/g, ' ').slice(0, 400);
}
