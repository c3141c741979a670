// Drives a live server with Cloudflare's own client and terminal addon and with the bridge's official clients: the JavaScript ones here, the
// Python one in python/, beside them.

import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { names, runAll } from '../_shared/frame.mjs';
import { beginEarly, goesOnBeside } from './early.mjs';
import { Context } from './support.mjs';

import './checks/execute.mjs';
import './checks/sessions.mjs';
import './checks/streams.mjs';
import './checks/processes.mjs';
import './checks/ends.mjs';
import './checks/ports.mjs';
import './checks/multiplex.mjs';
import './checks/terminal.mjs';
import './checks/bridge.mjs';
import './checks/files.mjs';
import './checks/many.mjs';
import './checks/native.mjs';
import './checks/access.mjs';
import './checks/silence.mjs';
import './checks/survival.mjs';

const { values } = parseArgs({
  options: {
    'base-url': { type: 'string' },
    only: { type: 'string', multiple: true, default: [] },
    list: { type: 'boolean', default: false },
  },
});
if (values.list) {
  console.log(names().join('\n'));
  process.exit(0);
}
if (!values['base-url']) {
  console.error('usage: node run.mjs --base-url http://127.0.0.1:PORT [--only NAME]... [--list]');
  process.exit(2);
}
const base = values['base-url'].replace(/\/$/, '');
const makeContext = () => new Context(base);
beginEarly(makeContext, values.only);
const python = runPython(base, values.only);
goesOnBeside(python);
const js = await runAll(makeContext, values.only);
console.log(`javascript: ${js.passed} passed, ${js.failed} failed`);
const { said, passed, failed: failedInPython } = await python;
process.stdout.write(said);
const failed = js.failed + failedInPython;
console.log(`${js.passed + passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);

/** Its lines are kept for later, its last one is counted. */
async function runPython(base, only) {
  const own = '.venv/bin/python';
  const flags = only.flatMap((name) => ['--only', name]);
  const child = spawn(existsSync(own) ? own : 'python3', ['-u', 'python/run.py', '--base-url', base, ...flags], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  for await (const chunk of child.stdout) said += chunk;
  const counted = said.match(/python: (\d+) passed, (\d+) failed\n$/);
  if (!counted) {
    return { said: `${said}FAIL python: it broke off\n`, passed: 0, failed: 1 };
  }
  return { said, passed: Number(counted[1]), failed: Number(counted[2]) };
}
