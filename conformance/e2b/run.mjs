// Drives a live server with the official E2B SDKs: the JavaScript one here, the Python one in python/, which is run after it.

import { readArguments, runSuite } from '../_shared/main.mjs';
import { Context } from './support.mjs';

import './checks/rest.mjs';
import './checks/commands.mjs';
import './checks/ends.mjs';
import './checks/input.mjs';
import './checks/terminal.mjs';
import './checks/trees.mjs';
import './checks/streams.mjs';
import './checks/reconnect.mjs';
import './checks/many.mjs';
import './checks/native.mjs';
import './checks/protocol.mjs';
import './checks/binary.mjs';
import './checks/access.mjs';
import './checks/survival.mjs';

await runSuite(readArguments(), (base) => new Context(base), { python: 'after' });
