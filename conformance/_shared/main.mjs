// What the `run.mjs` of every suite does once its checks are registered: arguments, the run, the Python part of suites that have one,
// the proof that no check passes for nothing, the sum. The last line is `N passed, M failed`.

import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { names, runAll } from './frame.mjs';
import { runPython } from './python.mjs';
import { startServer } from './server.mjs';

const STUB = fileURLToPath(new URL('stub.mjs', import.meta.url));

/** What was asked for. `more` are flags of one suite, as `parseArgs` takes them, and `usage` is how they are written. */
export function readArguments(more = {}, usage = '') {
  const { values } = parseArgs({
    options: {
      'base-url': { type: 'string' },
      stub: { type: 'boolean', default: false },
      only: { type: 'string', multiple: true, default: [] },
      list: { type: 'boolean', default: false },
      ...more,
    },
  });
  return { ...values, usage: `usage: node run.mjs --base-url http://127.0.0.1:PORT|--stub ${usage}[--only NAME]... [--list]` };
}

/**
 * Runs the checks and ends the process: with 0 if none failed, or, against the stub, if all of them did.
 *
 * `makeContext(base)` makes what a check is given. `python` says when python/ is run: 'after' the others or 'beside' them.
 * `begin` is called before the first check, `end` after the last.
 */
export async function runSuite(given, makeContext, { python, begin, end } = {}) {
  const { only } = given;
  if (given.list) {
    console.log(names().join('\n'));
    process.exit(0);
  }
  const isKnown = (name) => names().includes(name) || (python && name.startsWith('python_'));
  const unknown = only.filter((name) => !isKnown(name));
  if (unknown.length > 0) refuse(`no such check: ${unknown.join(', ')}`);
  if (Boolean(given['base-url']) === given.stub) refuse(given.usage);
  const stub = given.stub ? await startStub() : undefined;
  const base = stub?.url ?? given['base-url'].replace(/\/$/, '');

  const beside = python === 'beside' ? runPython(base, only) : undefined;
  const made = () => makeContext(base);
  begin?.({ makeContext: made, only, beside });
  let { passed, failed } = await runAll(made, only);
  await end?.();
  if (python) {
    console.log(`javascript: ${passed} passed, ${failed} failed`);
    const other = await (beside ?? runPython(base, only, (said) => process.stdout.write(said)));
    if (beside) process.stdout.write(other.said);
    passed += other.passed;
    failed += other.failed;
  }
  await stub?.stop();
  console.log(`${passed} passed, ${failed} failed`);
  const isFine = stub ? passed === 0 && failed > 0 : failed === 0;
  process.exit(isFine ? 0 : 1);
}

function refuse(why) {
  console.error(why);
  process.exit(2);
}

/** Servers that checks start are the stub as well. */
function startStub() {
  process.env.OUTLIVE_BINARY = STUB;
  return startServer([]);
}
