// Drives a live server with Cloudflare's own client and terminal addon and with the bridge's official clients: the JavaScript ones here, the
// Python one in python/, beside them.

import { readArguments, runSuite } from '../_shared/main.mjs';
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

await runSuite(readArguments(), (base) => new Context(base), {
  python: 'beside',
  begin: ({ makeContext, only, beside }) => {
    goesOnBeside(beside);
    beginEarly(makeContext, only);
  },
});
