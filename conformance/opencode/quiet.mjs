// Commands of a session run in a login shell. So that they do not depend on the profile of whoever started the common server, they get a server whose home is empty.

import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check } from '../_shared/frame.mjs';
import { startServer } from '../_shared/server.mjs';

let starting;

function quietServer() {
  process.env.HOME = mkdtempSync(join(tmpdir(), 'outlive-home-'));
  return startServer(['--no-token']);
}

/** A check against that server, which is started when it is first needed. */
export function quietCheck(name, fn, options) {
  check(name, async (t) => {
    starting ??= quietServer();
    t.move((await starting).url);
    await fn(t);
  }, options);
}

export async function stopQuietServer() {
  await (await starting)?.stop();
}
