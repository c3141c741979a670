// The system's Chromium, headless.

import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { chromium } from 'playwright-core';

const PROGRAMS = ['chromium', 'chromium-browser', 'google-chrome'];

/** A name of somebody else that leads to this machine, as whoever owns a name can arrange. */
export const FOREIGN_NAME = 'evil.example';

export function launch() {
  return chromium.launch({
    executablePath: find(),
    headless: true,
    // Its sandbox does not work for root.
    chromiumSandbox: process.getuid() !== 0,
    args: [
      `--host-resolver-rules=MAP ${FOREIGN_NAME} 127.0.0.1`,
      // The browser's own protection of the local network would stand before the one that is looked at.
      '--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests',
    ],
  });
}

function find() {
  const folders = (process.env.PATH ?? '').split(delimiter);
  const candidates = PROGRAMS.flatMap((program) => folders.map((folder) => join(folder, program)));
  const found = candidates.find(isExecutable);
  if (!found) throw new Error(`there is none of ${PROGRAMS.join(', ')} on the PATH`);
  return found;
}

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
