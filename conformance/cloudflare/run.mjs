// Drives a live server with Cloudflare's client and terminal addon and with the bridge's official clients: the
// JavaScript
// clients here, and alongside them the Python client in python/.

import { checkDocsPage } from '../_shared/docs_page.mjs';
import { readArguments, runSuite } from '../_shared/suite.mjs';
import { startConcurrentChecks, waitAlsoFor } from './concurrent.mjs';
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

await checkDocsPage('cloudflare', {
  copy: ['workers.mjs'],
  variable: [/Chunk ID: \w+/, /Wall time: [\d.]+ seconds/],
});
await runSuite(readArguments(), (base) => new Context(base), {
  python: 'alongside',
  begin: ({ makeContext, only, alongside }) => {
    waitAlsoFor(alongside);
    startConcurrentChecks(makeContext, only);
  },
});
