// Session commands run in a login shell. These checks use a server with an empty home, so that no user's profile runs.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check } from '../_shared/runner.mjs';
import { startServer } from '../_shared/server.mjs';

let starting;

async function startWithEmptyHome() {
  const home = await mkdtemp(join(tmpdir(), 'outlive-conformance-home-'));
  const removeHome = () => rm(home, { recursive: true, force: true });
  try {
    const { url, stop } = await startServer(['--no-token'], { env: { HOME: home } });
    return { url, stop: () => stop().finally(removeHome) };
  } catch (error) {
    await removeHome();
    throw error;
  }
}

/** A check against a server with an empty home, which is started on first use. */
export function checkInEmptyHome(name, fn, options) {
  check(name, async (t) => {
    starting ??= startWithEmptyHome();
    t.useServer((await starting).url);
    await fn(t);
  }, options);
}

/** If the server failed to start, the checks have reported it. */
export async function stopServerWithEmptyHome() {
  await (await starting?.catch(() => undefined))?.stop();
}
