// Drives a live server with the official sandbox-agent SDK.
// The server should be freshly started: the defaults and the order of numbered ids are looked at first.

import { parseArgs } from 'node:util';
import { names, runAll } from './frame.mjs';

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
import './checks/auth.mjs';

const USAGE = 'usage: node run.mjs --base-url http://127.0.0.1:PORT [--token T] [--only NAME]... [--list]';

const { values } = parseArgs({
  options: {
    'base-url': { type: 'string' },
    token: { type: 'string' },
    only: { type: 'string', multiple: true, default: [] },
    list: { type: 'boolean', default: false },
  },
});

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
const failed = await runAll(server, values.only);
process.exit(failed === 0 ? 0 : 1);
