// The frame around the checks: a register, a deadline for each, one line of result for each.

import { setMaxListeners } from 'node:events';
import { Context } from './support.mjs';

const DEADLINE_SECONDS = 60;
const registered = [];
let failRunning = null;

/** Registers a check. It passes if `fn` returns and fails if `fn` throws or is not done in time. */
export function check(name, fn, { seconds = DEADLINE_SECONDS, needsToken = false } = {}) {
  if (registered.some((other) => other.name === name)) throw new Error(`two checks are named ${name}`);
  registered.push({ name, fn, seconds, needsToken });
}

export const names = () => registered.map(({ name }) => name);

/** Runs the checks one after another (they share the server and its limits) and counts the failures. */
export async function runAll(server, only = []) {
  // A promise that a check forgot must count against that check, not end the whole run.
  // An abort is the end of an earlier check, which has its result already.
  process.on('unhandledRejection', (error) => error?.name !== 'AbortError' && failRunning?.(error));

  let passed = 0;
  let failed = 0;
  for (const entry of registered) {
    if (only.length > 0 && !only.includes(entry.name)) continue;
    if (entry.needsToken && !server.token) continue;
    const error = await runOne(server, entry);
    if (error === null) {
      passed += 1;
      console.log(`ok ${entry.name}`);
    } else {
      failed += 1;
      console.log(`FAIL ${entry.name}: ${oneLine(error)}`);
    }
  }
  console.log(`${passed} passed, ${failed} failed`);
  return failed;
}

async function runOne(server, { fn, seconds }) {
  const deadline = new AbortController();
  setMaxListeners(0, deadline.signal);
  const t = new Context(server, deadline.signal);
  let timer;
  const outOfTime = new Promise((_, reject) => {
    failRunning = reject;
    timer = setTimeout(() => reject(new Error(`not done within ${seconds} s`)), seconds * 1000);
  });
  outOfTime.catch(() => {});
  try {
    await Promise.race([fn(t), outOfTime]);
    return null;
  } catch (error) {
    return error;
  } finally {
    clearTimeout(timer);
    failRunning = null;
    // Ends every request and wait that the check still has in flight.
    deadline.abort();
    await t.cleanUp();
  }
}

function oneLine(error) {
  // The SDK's errors say only a title; the server's own words are in the problem.
  const detail = error?.problem?.detail ? ` (${error.status}: ${error.problem.detail})` : '';
  const reason = (error instanceof Error ? error.message || error.name : String(error)) + detail;
  return reason.replace(/\s+/g, ' ').slice(0, 400);
}
