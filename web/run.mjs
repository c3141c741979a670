// Builds the packages, and runs their tests against live servers: node run.mjs --binary PATH [--repaints PATH]
// The last line is `N passed, M failed`.

import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { run } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { commandOf } from './reference/program.mjs';
import { randomSeed, reference } from './reference/reference.mjs';

const { values } = parseArgs({ options: { binary: { type: 'string' }, repaints: { type: 'string' } } });
if (values.binary) process.env.OUTLIVE_BINARY = values.binary;
const here = fileURLToPath(new URL('.', import.meta.url));
const tally = { passed: 0, failed: 0 };

function check(name, ok, why = '') {
  tally[ok ? 'passed' : 'failed'] += 1;
  console.log(ok ? `ok ${name}` : `FAIL ${name}: ${why}`);
}

function tool(name, ...args) {
  const done = spawnSync(join(here, 'node_modules/.bin', name), args, { cwd: here, encoding: 'utf8' });
  return { ok: done.status === 0, why: (done.stdout + done.stderr).slice(0, 2000) };
}

// The types are generated, and checked in so that the packages build without the document.
const fresh = join(here, 'client/openapi.fresh.ts');
const generated = tool('openapi-typescript', '../openapi.json', '-o', fresh);
const same = generated.ok && readFileSync(fresh, 'utf8') === readFileSync(join(here, 'client/src/openapi.ts'), 'utf8');
rmSync(fresh, { force: true });
check('types_are_those_of_the_document', same, generated.why || 'run `npm run types` in web/');

rmSync(join(here, 'client/dist'), { recursive: true, force: true });
const built = tool('tsc', '-p', 'client/tsconfig.json');
check('client_builds', built.ok, built.why);

if (built.ok) {
  const tests = join(here, 'client/test');
  const files = readdirSync(tests).filter((name) => name.endsWith('.test.mjs')).map((name) => join(tests, name));
  // The event of a file stands for a process that could not be run; those of its tests come by themselves.
  const isTest = ({ details, name }) => details.type !== 'suite' && !name.endsWith('.mjs');
  const ended = run({ files, concurrency: true, timeout: 60_000 });
  ended.on('test:pass', (event) => isTest(event) && check(event.name, true));
  ended.on('test:fail', (event) => check(event.name, false, String(event.details.error?.cause ?? event.details.error)));
  for await (const _ of ended);
}

if (values.repaints) await reference({ program: commandOf(values.repaints), seed: randomSeed(), report: check });
console.log(`${tally.passed} passed, ${tally.failed} failed`);
process.exit(tally.failed === 0 ? 0 : 1);
