// Drives a live server with both entries of the official OpenCode SDK, and with sockets as its web client opens them.

import { parseArgs } from 'node:util';
import { names, runAll } from '../_shared/frame.mjs';
import { stopQuietServer } from './quiet.mjs';
import { Context } from './support.mjs';

import './checks/fixed.mjs';
import './checks/ptys.mjs';
import './checks/refusals.mjs';
import './checks/socket.mjs';
import './checks/cursor.mjs';
import './checks/text.mjs';
import './checks/tickets.mjs';
import './checks/api.mjs';
import './checks/events.mjs';
import './checks/sessions.mjs';
import './checks/shell.mjs';
import './checks/command.mjs';
import './checks/trees.mjs';
import './checks/many.mjs';
import './checks/native.mjs';
import './checks/access.mjs';
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
const { passed, failed } = await runAll(() => new Context(base), values.only);
await stopQuietServer();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
