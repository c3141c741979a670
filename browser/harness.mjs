// The test harness: registers checks, runs each with a deadline and prints one line per check.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const DEFAULT_TIMEOUT_SECONDS = 30;
const UNTIL_TIMEOUT_MS = 10_000;
const UNTIL_INTERVAL_MS = 20;

const registered = [];
/** Fails the running check. */
let failRunning = null;

/** Registers a check. It fails if `fn` throws or does not finish within `seconds`. */
export function check(name, fn, { seconds = DEFAULT_TIMEOUT_SECONDS } = {}) {
  if (registered.some((other) => other.name === name)) throw new Error(`two checks are named ${name}`);
  registered.push({ name, fn, seconds });
}

/** Names of all checks, or of those selected by a full name or by a prefix that ends at a slash. */
export const names = (only = []) => select(only).map(({ name }) => name);

function select(only) {
  const isSelected = (name) => only.some((prefix) => name === prefix || name.startsWith(`${prefix}/`));
  return registered.filter(({ name }) => only.length === 0 || isSelected(name));
}

/**
 * Runs the checks one after another, so that a slow machine runs only one browser, and returns the number of failures.
 */
export async function runAll(tools, only) {
  // A rejected promise that a check does not await fails that check instead of ending the run.
  process.on('unhandledRejection', (error) => failRunning?.(error));
  let passed = 0;
  let failed = 0;
  for (const entry of select(only)) {
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
  const timeout = new Promise((_, reject) => {
    failRunning = reject;
    timer = setTimeout(() => reject(new Error(`timed out after ${seconds} s`)), seconds * 1000);
  });
  timeout.catch(() => {});
  let failure = null;
  try {
    await Promise.race([fn(t), timeout]);
  } catch (error) {
    failure = error;
  }
  clearTimeout(timer);
  failRunning = null;
  // A server that does not stop is a failure too, but must not hide the first one.
  await t.cleanUp().catch((error) => (failure ??= error));
  return { failure, measured: t.measured };
}

function oneLine(error) {
  const reason = error instanceof Error ? error.message || error.name : String(error);
  return reason.replace(/\s+/g, ' ').slice(0, 600);
}

/** Passed to each check. Cleans up after it. */
class Context {
  #cleanups = [];
  /** Measurements, printed with the result. */
  measured = [];

  constructor({ binary, browser }) {
    this.binary = binary;
    this.browser = browser;
  }

  after(cleanup) {
    this.#cleanups.push(cleanup);
  }

  async tempDir() {
    const path = await mkdtemp(join(tmpdir(), 'outlive-browser-'));
    this.after(() => rm(path, { recursive: true, force: true }));
    return path;
  }

  /** Opens a page in its own browser profile. */
  async page(options = {}) {
    const profile = await this.browser.newContext(options);
    this.after(() => profile.close());
    return profile.newPage();
  }

  /** Runs all cleanups in reverse order, even if one fails. */
  async cleanUp() {
    const failures = [];
    for (const cleanup of this.#cleanups.reverse()) {
      try {
        await cleanup();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }
}

/** Polls `probe` until it returns a truthy value, and returns that value. */
export async function until(description, probe, timeoutMs = UNTIL_TIMEOUT_MS) {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const value = await probe();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`timed out after ${timeoutMs} ms waiting for: ${description}`);
    await new Promise((resolve) => setTimeout(resolve, UNTIL_INTERVAL_MS));
  }
}
