// Commands of a session run in a login shell. So that they do not depend on the profile of whoever started the common server, they get a server whose home is empty.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check } from '../_shared/frame.mjs';
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

/** A check against that server, which is started when it is first needed. */
export function checkInEmptyHome(name, fn, options) {
  check(name, async (t) => {
    starting ??= startWithEmptyHome();
    t.move((await starting).url);
    await fn(t);
  }, options);
}

/** If it never came up, the checks have said so. */
export async function stopServerWithEmptyHome() {
  await (await starting?.catch(() => undefined))?.stop();
}
