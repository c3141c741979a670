// Drives a live server with both entry points of the official OpenCode SDK, and with sockets opened like its web
// client.

import { checkDocsPage } from '../_shared/docs_page.mjs';
import { readArguments, runSuite } from '../_shared/suite.mjs';
import { stopServerWithEmptyHome } from './empty-home.mjs';
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

await checkDocsPage('opencode');
await runSuite(readArguments(), (base) => new Context(base), { end: stopServerWithEmptyHome });
