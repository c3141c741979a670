// Builds the packages, and runs their tests against live servers: node run.mjs --binary PATH
// The last line is `N passed, M failed`.

import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { run } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const { values } = parseArgs({ options: { binary: { type: 'string' } } });
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

// In the order in which they need each other.
const packages = ['client', 'xterm-addon'];
const built = packages.every((name) => {
  rmSync(join(here, name, 'dist'), { recursive: true, force: true });
  const done = tool('tsc', '-p', `${name}/tsconfig.json`);
  check(`${name}_builds`, done.ok, done.why);
  return done.ok;
});

if (built) {
  const types = tool('tsc', '-p', 'xterm-addon/test/types/tsconfig.json');
  check('xterm_addon_fits_the_types_of_the_emulators', types.ok, types.why);
  const tests = packages.map((name) => join(here, name, 'test'));
  const files = tests.flatMap((folder) => readdirSync(folder).filter((name) => name.endsWith('.test.mjs')).map((name) => join(folder, name)));
  // The event of a file stands for a process that could not be run; those of its tests come by themselves.
  const isTest = ({ details, name }) => details.type !== 'suite' && !name.endsWith('.mjs');
  const ended = run({ files, concurrency: true, timeout: 60_000 });
  ended.on('test:pass', (event) => isTest(event) && check(event.name, true));
  ended.on('test:fail', (event) => check(event.name, false, String(event.details.error?.cause ?? event.details.error)));
  for await (const _ of ended);
}
console.log(`${tally.passed} passed, ${tally.failed} failed`);
process.exit(tally.failed === 0 ? 0 : 1);
