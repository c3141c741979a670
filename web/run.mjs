// Builds the packages, and runs their tests against live servers: node run.mjs --binary PATH [--repaints PATH]
// The last line is `N passed, M failed`.

import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { gzipSync } from 'node:zlib';
import { commandOf } from './reference/program.mjs';
import { reference } from './reference/reference.mjs';
import { listed, ranges } from './reference/widths.mjs';

/** Of all files of the console together. */
const MOST_COMPRESSED_BYTES = 200 * 1024;

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

/** The server embeds the bundle that is checked in, and is built without Node: it must be what its source gives. */
function checkBundle() {
  const fresh = mkdtempSync(join(tmpdir(), 'outlive-console-'));
  const done = spawnSync(process.execPath, ['console/build.mjs', fresh], { cwd: here, encoding: 'utf8' });
  const dist = join(here, 'console/dist');
  const differing = [...new Set([...readdirSync(dist), ...readdirSync(fresh)])].filter((file) => read(dist, file) !== read(fresh, file));
  rmSync(fresh, { recursive: true });
  const why = done.status === 0 ? `run \`npm run build\` in web/ and check in console/dist: ${differing}` : done.stderr.slice(0, 2000);
  check('the_console_that_is_checked_in_is_that_of_its_source', done.status === 0 && differing.length === 0, why);
  const compressed = readdirSync(dist).reduce((sum, file) => sum + gzipSync(readFileSync(join(dist, file))).length, 0);
  check('the_console_is_small', compressed < MOST_COMPRESSED_BYTES, `${compressed} bytes`);
}

function read(folder, file) {
  const path = join(folder, file);
  return existsSync(path) ? readFileSync(path, 'utf8') : undefined;
}

// The types are generated, and checked in so that the packages build without the document.
const fresh = join(here, 'client/openapi.fresh.ts');
const generated = tool('openapi-typescript', '../openapi.json', '-o', fresh);
const same = generated.ok && readFileSync(fresh, 'utf8') === readFileSync(join(here, 'client/src/openapi.ts'), 'utf8');
rmSync(fresh, { force: true });
check('types_are_those_of_the_document', same, generated.why || 'run `npm run types` in web/');

// In the order in which they need each other.
const packages = ['client', 'xterm-addon', 'console'];
const compiled = { console: 'checked' };
const built = packages.every((name) => {
  rmSync(join(here, name, compiled[name] ?? 'dist'), { recursive: true, force: true });
  const done = tool('tsc', '-p', `${name}/tsconfig.json`);
  check(`${name}_builds`, done.ok, done.why);
  return done.ok;
});

if (built) {
  const types = tool('tsc', '-p', 'xterm-addon/test/types/tsconfig.json');
  check('xterm_addon_fits_the_types_of_the_emulators', types.ok, types.why);
  checkBundle();
  const example = join(here, '../examples/collaborative');
  const installed = spawnSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: example, encoding: 'utf8' });
  check('example_installs', installed.status === 0, installed.stderr);
  const tests = [...packages.map((name) => join(here, name, 'test')), example];
  const files = tests.flatMap((folder) => readdirSync(folder).filter((name) => name.endsWith('.test.mjs')).map((name) => join(folder, name)));
  // The event of a file stands for a process that could not be run; those of its tests come by themselves.
  const isTest = ({ details, name }) => details.type !== 'suite' && !name.endsWith('.mjs');
  const ended = run({ files, concurrency: true, timeout: 60_000 });
  ended.on('test:pass', (event) => isTest(event) && check(event.name, true));
  ended.on('test:fail', (event) => check(event.name, false, String(event.details.error?.cause ?? event.details.error)));
  for await (const _ of ended);
}

check('characters_are_as_wide_as_in_xterm', ranges().join() === listed().join(), 'node reference/widths.mjs prints what belongs into width_table.rs');
// The same cuts every time: of the streams that may differ now and then, chance would decide. By hand the cuts are others each time.
const seed = 7;
if (values.repaints) {
  console.log(`seed ${seed}`);
  await reference({ program: commandOf(values.repaints), seed, report: check });
}
console.log(`${tally.passed} passed, ${tally.failed} failed`);
process.exit(tally.failed === 0 ? 0 : 1);
