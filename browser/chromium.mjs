// The system's Chromium, headless.

import { chromium } from 'playwright-core';
import { findProgram } from './programs.mjs';

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
  const found = findProgram(...PROGRAMS);
  if (!found) throw new Error(`there is none of ${PROGRAMS.join(', ')} on the PATH`);
  return found;
}
