// The frame around the checks: a register, a deadline for each, one line of result for each.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const DEADLINE_SECONDS = 30;
const registered = [];
let failRunning = null;

/** Registers a check. It passes if `fn` returns and fails if `fn` throws or is not done in time: `seconds`, where time itself is looked at. */
export function check(name, fn, { seconds = DEADLINE_SECONDS } = {}) {
  if (registered.some((other) => other.name === name)) throw new Error(`two checks are named ${name}`);
  registered.push({ name, fn, seconds });
}

/** All names, or those that are chosen: by the whole name, or by what it begins with up to a slash. */
export const names = (only = []) => chosen(only).map(({ name }) => name);

function chosen(only) {
  const isChosen = (name) => only.some((start) => name === start || name.startsWith(`${start}/`));
  return registered.filter(({ name }) => only.length === 0 || isChosen(name));
}

/** Runs the checks one after another, so that a slow machine is not asked for more than one, and counts the failures. */
export async function runAll(tools, only) {
  // A promise that a check forgot must count against that check, not end the whole run.
  process.on('unhandledRejection', (error) => failRunning?.(error));
  let passed = 0;
  let failed = 0;
  for (const entry of chosen(only)) {
    const { failure, measured } = await runOne(tools, entry);
    const numbers = measured.length > 0 ? ` (${measured.join(', ')})` : '';
    if (failure === null) {
      passed += 1;
      console.log(`ok ${entry.name}${numbers}`);
    } else {
      failed += 1;
      console.log(`FAIL ${entry.name}: ${oneLine(failure)}${numbers}`);
    }
  }
  console.log(`${passed} passed, ${failed} failed`);
  return failed;
}

async function runOne(tools, { fn, seconds }) {
  const t = new Context(tools);
  let timer;
  const outOfTime = new Promise((_, reject) => {
    failRunning = reject;
    timer = setTimeout(() => reject(new Error(`not done within ${seconds} s`)), seconds * 1000);
  });
  outOfTime.catch(() => {});
  let failure = null;
  try {
    await Promise.race([fn(t), outOfTime]);
  } catch (error) {
    failure = error;
  }
  clearTimeout(timer);
  failRunning = null;
  // A server that does not end is a failure too, but not instead of the first one.
  await t.cleanUp().catch((error) => (failure ??= error));
  return { failure, measured: t.measured };
}

function oneLine(error) {
  const reason = error instanceof Error ? error.message || error.name : String(error);
  return reason.replace(/\s+/g, ' ').slice(0, 600);
}

/** What a check may use. What it made is gone when the check is over. */
class Context {
  #cleaners = [];
  /** Numbers for whoever reads the result. */
  measured = [];

  constructor({ binary, browser }) {
    this.binary = binary;
    this.browser = browser;
  }

  after(cleaner) {
    this.#cleaners.push(cleaner);
  }

  async folder() {
    const path = await mkdtemp(join(tmpdir(), 'outlive-browser-'));
    this.after(() => rm(path, { recursive: true, force: true }));
    return path;
  }

  /** A page in a profile of its own. */
  async page(options = {}) {
    const profile = await this.browser.newContext(options);
    this.after(() => profile.close());
    return profile.newPage();
  }

  /** The last thing made is the first to go; one that fails does not keep the others. */
  async cleanUp() {
    const failures = [];
    for (const cleaner of this.#cleaners.reverse()) {
      try {
        await cleaner();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }
}
