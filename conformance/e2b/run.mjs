// Drives a live server with the official E2B SDKs: the JavaScript SDK here, and after it the Python SDK in python/.

import { checkDocsPage } from '../_shared/docs_page.mjs';
import { readArguments, runSuite } from '../_shared/suite.mjs';
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

await checkDocsPage('e2b', { env: (address) => ({ E2B_SANDBOX_URL: `http://${address}` }) });
await runSuite(readArguments(), (base) => new Context(base), { python: 'after' });
