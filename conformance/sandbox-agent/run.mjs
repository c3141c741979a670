// Drives a live server with the official sandbox-agent SDK.
// The server should be freshly started: the defaults and the order of numbered ids are looked at first.

import { readArguments, runSuite } from '../_shared/main.mjs';
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

const given = readArguments({ token: { type: 'string' } }, '[--token T] ');
// Without a token there is nothing to check.
if (given.token) await import('./checks/auth.mjs');
await runSuite(given, (baseUrl) => new Context({ baseUrl, token: given.token }));
