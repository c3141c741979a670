// The command line and the run of a suite whose checks are registered: arguments, checks, the Python part if the suite
// has one, the run against the stub, and the total. The last line is `N passed, M failed`.

import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { names, runAll } from './runner.mjs';
import { runPython } from './python.mjs';
import { startServer } from './server.mjs';

const STUB = fileURLToPath(new URL('stub.mjs', import.meta.url));

/**
 * Parses the command line. `extraOptions` are options of one suite for `parseArgs`; `usage` shows how they are
 * written.
 */
export function readArguments(extraOptions = {}, usage = '') {
  const { values } = parseArgs({
    options: {
      'base-url': { type: 'string' },
      stub: { type: 'boolean', default: false },
      only: { type: 'string', multiple: true, default: [] },
      list: { type: 'boolean', default: false },
      ...extraOptions,
    },
  });
  return { ...values, usage: `usage: node run.mjs --base-url http://127.0.0.1:PORT|--stub ${usage}[--only NAME]... [--list]` };
}

/**
 * Runs the checks and exits: with 0 if none failed or, against the stub, if all failed.
 *
 * `makeContext(base)` makes the context of a check. `python` is when python/ runs: 'after' the other checks or
 * 'alongside' them. `begin` is called before the first check, `end` after the last.
 */
export async function runSuite(options, makeContext, { python, begin, end } = {}) {
  const { only } = options;
  if (options.list) {
    console.log(names().join('\n'));
    process.exit(0);
  }
  const isKnown = (name) => names().includes(name) || (python && name.startsWith('python_'));
  const unknown = only.filter((name) => !isKnown(name));
  if (unknown.length > 0) exitWithUsageError(`unknown check: ${unknown.join(', ')}`);
  if (Boolean(options['base-url']) === options.stub) exitWithUsageError(options.usage);
  const stub = options.stub ? await startStub() : undefined;
  const base = stub?.url ?? options['base-url'].replace(/\/$/, '');

  const alongside = python === 'alongside' ? runPython(base, only) : undefined;
  const contextFor = () => makeContext(base);
  begin?.({ makeContext: contextFor, only, alongside });
  let { passed, failed } = await runAll(contextFor, only);
  await end?.();
  if (python) {
    console.log(`javascript: ${passed} passed, ${failed} failed`);
    const result = await (alongside ?? runPython(base, only, (chunk) => process.stdout.write(chunk)));
    if (alongside) process.stdout.write(result.output);
    passed += result.passed;
    failed += result.failed;
  }
  await stub?.stop();
  console.log(`${passed} passed, ${failed} failed`);
  const isSuccess = stub ? passed === 0 && failed > 0 : failed === 0;
  process.exit(isSuccess ? 0 : 1);
}

function exitWithUsageError(message) {
  console.error(message);
  process.exit(2);
}

/** Servers that the checks start themselves are stubs too. */
function startStub() {
  process.env.OUTLIVE_BINARY = STUB;
  return startServer([]);
}
