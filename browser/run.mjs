// Runs the browser checks. Each check starts its own server.

import { parseArgs } from 'node:util';
import { launch } from './chromium.mjs';
import { names, runAll } from './harness.mjs';

import './checks/foreign_page.mjs';
import './checks/rebinding.mjs';
import './checks/allowed_page.mjs';
import './checks/docs_page.mjs';
import './checks/console/access.mjs';
import './checks/console/terminal.mjs';
import './checks/console/panes.mjs';
import './checks/console/sessions.mjs';
import './checks/console/share.mjs';
import './checks/display/cloudflare.mjs';
import './checks/display/first_steps.mjs';
import './checks/display/flood.mjs';
import './checks/display/foreign_sites.mjs';
import './checks/display/full_screen.mjs';
import './checks/display/late_attach.mjs';
import './checks/display/outage.mjs';
import './checks/display/read_only.mjs';
import './checks/display/server_kill.mjs';
import './checks/display/shared_terminal.mjs';

const USAGE = 'usage: node run.mjs --binary PATH_TO_OUTLIVE [--only NAME]... [--list]';

const { values } = parseArgs({
  options: {
    binary: { type: 'string' },
    only: { type: 'string', multiple: true, default: [] },
    list: { type: 'boolean', default: false },
  },
});

if (values.list) {
  console.log(names().join('\n'));
  process.exit(0);
}
const unknown = values.only.filter((name) => names([name]).length === 0);
if (!values.binary || unknown.length > 0) {
  console.error(unknown.length > 0 ? `no such check: ${unknown.join(', ')}` : USAGE);
  process.exit(2);
}

const browser = await launch();
const failed = await runAll({ binary: values.binary, browser }, values.only);
await browser.close();
process.exit(failed === 0 ? 0 : 1);
