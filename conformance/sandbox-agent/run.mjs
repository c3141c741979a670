// Drives a live server with the official sandbox-agent SDK.
// The server should be freshly started: the defaults and the order of numbered ids are looked at first.

import { parseArgs } from 'node:util';
import { names, runAll } from '../_shared/frame.mjs';
import { Context } from './support.mjs';

// The order matters for the first two only, see there.
import './checks/config.mjs';
import './checks/lifecycle.mjs';
import './checks/connect.mjs';
import './checks/run.mjs';
import './checks/trees.mjs';
import './checks/logs.mjs';
import './checks/follow.mjs';
import './checks/input.mjs';
import './checks/terminal.mjs';
import './checks/volume.mjs';
import './checks/errors.mjs';
import './checks/beyond.mjs';

const USAGE = 'usage: node run.mjs --base-url http://127.0.0.1:PORT [--token T] [--only NAME]... [--list]';

const { values } = parseArgs({
  options: {
    'base-url': { type: 'string' },
    token: { type: 'string' },
    only: { type: 'string', multiple: true, default: [] },
    list: { type: 'boolean', default: false },
  },
});

// Without a token there is nothing to check.
if (values.token) await import('./checks/auth.mjs');

if (values.list) {
  console.log(names().join('\n'));
  process.exit(0);
}
const unknown = values.only.filter((name) => !names().includes(name));
if (!values['base-url'] || unknown.length > 0) {
  console.error(unknown.length > 0 ? `no such check: ${unknown.join(', ')}` : USAGE);
  process.exit(2);
}

const server = { baseUrl: values['base-url'].replace(/\/$/, ''), token: values.token };
const { passed, failed } = await runAll(() => new Context(server), values.only);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
