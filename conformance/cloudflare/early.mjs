// Checks that mostly wait. Their work begins with the run and goes on beside the others; what came of it is looked at in their turn.

import { check } from '../_shared/frame.mjs';

const registered = new Map();
const beside = [];

/** Something else that goes on beside the checks. */
export const goesOnBeside = (promise) => beside.push(promise);

export function early(name, fn, options) {
  registered.set(name, { fn });
  check(name, async (t) => {
    begin(name, t);
    t.atEnd.push(() => registered.get(name).context.cleanUp());
    const error = await registered.get(name).over;
    if (error !== null) throw error;
  }, options);
}

function begin(name, context) {
  const entry = registered.get(name);
  if (entry.over) return;
  entry.context = context;
  entry.over = entry.fn(context).then(() => null, (error) => error ?? new Error('thrown: nothing'));
}

/** Begins those that are to be run, each with a context of its own. */
export function beginEarly(makeContext, only = []) {
  for (const name of registered.keys()) if (only.length === 0 || only.includes(name)) begin(name, makeContext());
}

/** Until nothing is under way but the check that asks: for those that want to be alone. */
export async function alone() {
  await Promise.all([...[...registered.values()].map(({ over }) => over), ...beside]);
  for (const { context } of registered.values()) await context?.cleanUp();
}
