// Builds the packages and runs their tests against live servers: node run.mjs --binary PATH [--repaints PATH]
// The last line of output is `N passed, M failed`.

import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { gzipSync } from 'node:zlib';
import { commandFor } from './reference/program.mjs';
import { checkRepaints } from './reference/reference.mjs';
import { rangesInServer, rangesInXterm } from './reference/widths.mjs';

/** Limit for all files of the console together, compressed. */
const MAX_COMPRESSED_BYTES = 200 * 1024;
/** Fixed, so that every run checks the same cuts: for streams that may differ, chance would decide the result. */
const SEED = 7;

const { values } = parseArgs({ options: { binary: { type: 'string' }, repaints: { type: 'string' } } });
if (values.binary) process.env.OUTLIVE_BINARY = values.binary;
const webDir = fileURLToPath(new URL('.', import.meta.url));
const tally = { passed: 0, failed: 0 };

function check(name, isOk, reason = '') {
  tally[isOk ? 'passed' : 'failed'] += 1;
  console.log(isOk ? `ok ${name}` : `FAIL ${name}: ${reason}`);
}

function runTool(name, ...args) {
  const result = spawnSync(join(webDir, 'node_modules/.bin', name), args, { cwd: webDir, encoding: 'utf8' });
  return { isOk: result.status === 0, output: (result.stdout + result.stderr).slice(0, 2000) };
}

/** openapi.ts is generated, and committed so that the packages build without openapi.json. */
function checkTypes() {
  const generatedFile = join(webDir, 'client/openapi.fresh.ts');
  const { isOk, output } = runTool('openapi-typescript', '../openapi.json', '-o', generatedFile);
  const committed = readFileSync(join(webDir, 'client/src/openapi.ts'), 'utf8');
  const isSame = isOk && readFileSync(generatedFile, 'utf8') === committed;
  rmSync(generatedFile, { force: true });
  check('client_types_match_openapi_json', isSame, output || 'run `npm run types` in web/');
}

/** The server embeds the committed bundle and is built without Node, so the bundle must match its source. */
function checkBundle() {
  const freshDir = mkdtempSync(join(tmpdir(), 'outlive-console-'));
  const build = spawnSync(process.execPath, ['console/build.mjs', freshDir], { cwd: webDir, encoding: 'utf8' });
  const dist = join(webDir, 'console/dist');
  const files = new Set([...readdirSync(dist), ...readdirSync(freshDir)]);
  const differing = [...files].filter((file) => readIfExists(dist, file) !== readIfExists(freshDir, file));
  rmSync(freshDir, { recursive: true });
  const isBuilt = build.status === 0;
  const hint = `run \`npm run build\` in web/ and commit console/dist: ${differing}`;
  const reason = isBuilt ? hint : build.stderr.slice(0, 2000);
  check('committed_console_matches_its_source', isBuilt && differing.length === 0, reason);
  const compressed = readdirSync(dist).reduce((sum, file) => sum + gzipSync(readFileSync(join(dist, file))).length, 0);
  check('console_is_within_its_size_limit', compressed < MAX_COMPRESSED_BYTES, `${compressed} bytes`);
}

function readIfExists(directory, file) {
  const path = join(directory, file);
  return existsSync(path) ? readFileSync(path, 'utf8') : undefined;
}

async function runTests(directories) {
  const files = directories.flatMap((directory) =>
    readdirSync(directory)
      .filter((name) => name.endsWith('.test.mjs'))
      .map((name) => join(directory, name)),
  );
  // Passing files also emit an event, in addition to those of their tests. A failing one means that it could not run.
  const isTest = ({ details, name }) => details.type !== 'suite' && !name.endsWith('.mjs');
  const events = run({ files, concurrency: true, timeout: 60_000 });
  events.on('test:pass', (event) => isTest(event) && check(event.name, true));
  events.on('test:fail', (event) =>
    check(event.name, false, String(event.details.error?.cause ?? event.details.error)),
  );
  for await (const _ of events);
}

checkTypes();

// Ordered by dependency.
const packages = ['client', 'xterm-addon', 'console'];
const outputDirs = { console: 'checked' };
const areBuilt = packages.every((name) => {
  rmSync(join(webDir, name, outputDirs[name] ?? 'dist'), { recursive: true, force: true });
  const { isOk, output } = runTool('tsc', '-p', `${name}/tsconfig.json`);
  check(`${name}_builds`, isOk, output);
  return isOk;
});

if (areBuilt) {
  const { isOk, output } = runTool('tsc', '-p', 'xterm-addon/test/types/tsconfig.json');
  check('xterm_addon_matches_the_types_of_the_emulators', isOk, output);
  checkBundle();
  const example = join(webDir, '../examples/collaborative');
  const install = spawnSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: example, encoding: 'utf8' });
  check('example_installs', install.status === 0, install.stderr);
  await runTests([...packages.map((name) => join(webDir, name, 'test')), example]);
}

const areWidthsEqual = rangesInXterm().join() === rangesInServer().join();
check(
  'character_widths_match_xterm',
  areWidthsEqual,
  'update width_table.rs with the output of node reference/widths.mjs',
);
if (values.repaints) {
  console.log(`seed ${SEED}`);
  await checkRepaints({ program: commandFor(values.repaints), seed: SEED, report: check });
}
console.log(`${tally.passed} passed, ${tally.failed} failed`);
process.exit(tally.failed === 0 ? 0 : 1);
