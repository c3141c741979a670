// The frame around the checks of a suite: a register, a deadline for each, one line of result for each.

const DEADLINE_SECONDS = 60;
const registered = [];
let failRunning = null;

/** Registers a check. It passes if `fn` returns and fails if `fn` throws or is not done in time. */
export function check(name, fn, { seconds = DEADLINE_SECONDS } = {}) {
  if (registered.some((other) => other.name === name)) throw new Error(`two checks are named ${name}`);
  registered.push({ name, fn, seconds });
}

export const names = () => registered.map(({ name }) => name);

/**
 * Runs the checks one after another, each with a context of its own from `makeContext` (which has `cleanUp`), and
 * counts. The caller prints the sum.
 */
export async function runAll(makeContext, only = []) {
  // A promise that a check forgot must count against that check, not end the whole run. An abort is the end of an
  // earlier check, which has its result already.
  process.on('unhandledRejection', (error) => error?.name !== 'AbortError' && failRunning?.(error));
  const tally = { passed: 0, failed: 0 };
  for (const entry of registered) {
    if (only.length > 0 && !only.includes(entry.name)) continue;
    const error = await runOne(makeContext, entry);
    tally[error === null ? 'passed' : 'failed'] += 1;
    console.log(error === null ? `ok ${entry.name}` : `FAIL ${entry.name}: ${oneLine(error)}`);
  }
  return tally;
}

async function runOne(makeContext, { fn, seconds }) {
  const t = makeContext();
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
    return error ?? new Error('thrown: nothing');
  } finally {
    clearTimeout(timer);
    failRunning = null;
    await t.cleanUp();
  }
}

function oneLine(error) {
  // Some clients' errors say only a title; the server's own words are in the problem.
  const detail = error?.problem?.detail ? ` (${error.status}: ${error.problem.detail})` : '';
  const reason = (error instanceof Error ? error.message || error.name : String(error)) + detail;
  return reason.replace(/\s+/g, ' ').slice(0, 400);
}
