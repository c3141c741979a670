// Drives a real browser against live servers, which the checks start themselves.

import { parseArgs } from 'node:util';
import { names, runAll } from './frame.mjs';
import { launch } from './chromium.mjs';

import './checks/foreign_page.mjs';
import './checks/rebinding.mjs';
import './checks/allowed_page.mjs';
import './checks/docs_page.mjs';
import './checks/console/access.mjs';
import './checks/console/terminal.mjs';
import './checks/console/work.mjs';
import './checks/shown/cloudflare.mjs';
import './checks/shown/coming_late.mjs';
import './checks/shown/first_minute.mjs';
import './checks/shown/flood.mjs';
import './checks/shown/full_screen.mjs';
import './checks/shown/looking_on.mjs';
import './checks/shown/outage.mjs';
import './checks/shown/server_death.mjs';
import './checks/shown/strangers.mjs';
import './checks/shown/together.mjs';

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
