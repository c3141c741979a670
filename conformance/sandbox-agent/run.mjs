// Drives a live server with the official sandbox-agent SDK.
// The server must be freshly started: the checks read its defaults and the order of its ids.

import { readArguments, runSuite } from '../_shared/suite.mjs';
import { Context } from './support.mjs';

// The order matters for the first two only; see their comments.
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

const given = readArguments({ token: { type: 'string' } }, '[--token T] ');
// Without a token the server requires none.
if (given.token) await import('./checks/auth.mjs');
await runSuite(given, (baseUrl) => new Context({ baseUrl, token: given.token }));
