// Drives a live server with the official OpenSandbox SDKs: the JavaScript SDK here, and after it the Python SDK in
// python/.

import { checkDocsPage } from '../_shared/docs_page.mjs';
import { readArguments, runSuite } from '../_shared/suite.mjs';
import { Context } from './support.mjs';

import './checks/rest.mjs';
import './checks/commands.mjs';
import './checks/lines.mjs';
import './checks/ends.mjs';
import './checks/background.mjs';
import './checks/resume.mjs';
import './checks/sessions.mjs';
import './checks/pty.mjs';
import './checks/viewers.mjs';
import './checks/terminal.mjs';
import './checks/lifecycle.mjs';
import './checks/native.mjs';
import './checks/many.mjs';
import './checks/survival.mjs';

await checkDocsPage('opensandbox');
await runSuite(readArguments(), (base) => new Context(base), { python: 'after' });
