// Runs the programs of a dialect's page in docs/dialects/ and compares their output with the page.
//
// A program is a code block that starts with its file name as a comment. A `console` block has the commands that run
// such programs, each followed by its output.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { check } from './runner.mjs';
import { startServer } from './server.mjs';

/**
 * Registers one check per command of the page. `env(address)` is the environment that the command needs beside the
 * page's own. `copy` are files of the suite that the page tells its reader to copy. `variable` are parts of the output
 * that differ from run to run.
 */
export async function checkDocsPage(dialect, { env = () => ({}), copy = [], variable = [] } = {}) {
  const text = await readFile(fileURLToPath(new URL(`../../docs/dialects/${dialect}.md`, import.meta.url)), 'utf8');
  const page = parsePage(text, dialect);
  assert.ok(page.commands.length > 0, `docs/dialects/${dialect}.md has no command with output`);
  for (const { command, output } of page.commands) {
    const program = command.split(' ').pop();
    check(`docs_page_${program.replace(/\W/g, '_')}_prints_what_the_page_says`, async () => {
      const printed = await run(dialect, page, command, { env, copy });
      assert.equal(hideVariable(printed, variable), hideVariable(output, variable));
    });
  }
}

function parsePage(text, dialect) {
  const blocks = [...text.matchAll(/^```(\w+)\n([^]*?)^```$/gm)].map(([, language, body]) => ({ language, body }));
  const address = text.match(new RegExp(`--dialect ${dialect}=(\\S+)`))[1];
  const programs = new Map();
  const commands = [];
  for (const { language, body } of blocks) {
    const name = body.match(/^(?:\/\/|#) (\S+\.(?:mjs|js|py))\n/)?.[1];
    if (name) programs.set(name, body);
    if (language !== 'console') continue;
    for (const part of body.split(/^\$ /m).slice(1)) {
      const [command, ...lines] = part.split('\n');
      commands.push({ command, output: lines.join('\n') });
    }
  }
  return { address, programs, commands };
}

async function run(dialect, page, command, { env, copy }) {
  // Programs of a server run login shells: with another HOME they would run the profile of this user.
  const server = await startServer(['--no-token'], { dialects: [dialect], env: { HOME: tmpdir() } });
  // Below the suite, so that Node finds its packages.
  const directory = await mkdtemp(resolve('docs-page-'));
  try {
    const address = new URL(server.dialects[dialect]).host;
    for (const [name, body] of page.programs) {
      await writeFile(join(directory, name), body.replaceAll(page.address, address));
    }
    for (const name of copy) await copyFile(name, join(directory, name));
    return await output(command, directory, env(address));
  } finally {
    await rm(directory, { recursive: true, force: true });
    await server.stop();
  }
}

/** The standard output of a command line such as `A=1 node hello.mjs`. */
async function output(command, directory, extra) {
  const words = command.split(' ');
  const isVariable = (word) => /^[A-Z0-9_]+=/.test(word);
  const variables = Object.fromEntries(words.filter(isVariable).map((word) => word.split('=')));
  const [program, ...args] = words.filter((word) => !isVariable(word));
  const executable = { node: process.execPath, python: resolve('.venv/bin/python') }[program];
  assert.ok(executable, `the page runs ${program}, which is neither node nor python`);
  const child = spawn(executable, args, {
    cwd: directory,
    env: { ...process.env, ...variables, ...extra },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (chunk) => { stdout += chunk; });
  child.stderr.on('data', (chunk) => { stderr += chunk; });
  const code = await new Promise((done, fail) => child.on('close', done).on('error', fail));
  assert.equal(code, 0, stderr);
  return stdout;
}

/** The text as a person compares it: without the carriage returns of terminals, and without variable parts. */
function hideVariable(text, variable) {
  const user = new RegExp(`\\b(root|${userInfo().username})\\b`, 'g');
  const hidden = variable.reduce((rest, pattern) => rest.replace(pattern, '…'), text.replace(user, 'USER'));
  return hidden.replaceAll('\r\n', '\n').trimEnd();
}
