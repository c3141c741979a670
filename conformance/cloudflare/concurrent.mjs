// Checks that mostly wait. They start with the run, alongside the others; their results are reported in their turn.

import { check } from '../_shared/runner.mjs';

const registered = new Map();
const otherTasks = [];

/** Adds a task that runs alongside the checks. */
export const waitAlsoFor = (promise) => otherTasks.push(promise);

export function checkConcurrently(name, fn, options) {
  registered.set(name, { fn });
  check(name, async (t) => {
    start(name, t);
    t.cleanUpSteps.push(() => registered.get(name).context.cleanUp());
    const error = await registered.get(name).finished;
    if (error !== null) throw error;
  }, options);
}

function start(name, context) {
  const entry = registered.get(name);
  if (entry.finished) return;
  entry.context = context;
  entry.finished = entry.fn(context).then(() => null, (error) => error ?? new Error('the check threw no error object'));
}

/** Starts the selected concurrent checks, each with its own context. */
export function startConcurrentChecks(makeContext, only = []) {
  for (const name of registered.keys()) if (only.length === 0 || only.includes(name)) start(name, makeContext());
}

/** Waits until no other check runs. For checks that must run alone. */
export async function waitForConcurrentChecks() {
  await Promise.all([...[...registered.values()].map(({ finished }) => finished), ...otherTasks]);
  for (const { context } of registered.values()) await context?.cleanUp();
}
