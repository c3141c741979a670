// Finds and launches the system's Chromium, headless.

import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { chromium } from 'playwright-core';

const PROGRAMS = ['chromium', 'chromium-browser', 'google-chrome'];

/** A foreign domain that resolves to this machine, as the owner of a domain can arrange. */
export const FOREIGN_NAME = 'evil.example';

export function launch() {
  const executablePath = findProgram(...PROGRAMS);
  if (!executablePath) throw new Error(`none of ${PROGRAMS.join(', ')} is on the PATH; install Chromium`);
  return chromium.launch({
    executablePath,
    headless: true,
    // Chromium's sandbox does not work for root.
    chromiumSandbox: process.getuid() !== 0,
    args: [
      `--host-resolver-rules=MAP ${FOREIGN_NAME} 127.0.0.1`,
      // Chromium's own protection of the local network would hide whether outlive's works.
      '--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests',
    ],
  });
}

/** The path of the first of these programs that is installed. */
export function findProgram(...names) {
  const directories = (process.env.PATH ?? '').split(delimiter);
  return names.flatMap((name) => directories.map((directory) => join(directory, name))).find(isExecutable);
}

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
