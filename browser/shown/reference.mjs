// What a terminal must show: all its bytes, given in one go to an emulator that never lost a connection.

import assert from 'node:assert/strict';
import unicode11 from '@xterm/addon-unicode11';
import headless from '@xterm/headless';
import { until } from '../until.mjs';
import { describe } from './cells.mjs';

/** As many as the console keeps. */
const SCROLLBACK_LINES = 5000;

export async function cellsOf(bytes, { cols, rows }) {
  const terminal = new headless.Terminal({ cols, rows, scrollback: SCROLLBACK_LINES, allowProposedApi: true });
  terminal.loadAddon(new unicode11.Unicode11Addon());
  terminal.unicode.activeVersion = '11';
  await new Promise((resolve) => terminal.write(bytes, resolve));
  const cells = describe(terminal);
  terminal.dispose();
  return cells;
}

/** From the first byte on: a part would prove nothing. */
export async function everythingPrinted(server, id) {
  const headers = server.token ? { authorization: `Bearer ${server.token}` } : {};
  const answer = await fetch(`${server.base}/v1/processes/${encodeURIComponent(id)}/output?from=0`, { headers });
  assert.equal(answer.status, 200, 'everything that was printed is still there');
  assert.equal(answer.headers.get('x-outlive-offset'), '0');
  return new Uint8Array(await answer.arrayBuffer());
}

/** Reads along from the beginning, for a program of which less is kept than it prints. */
export async function readAlong(t, server, id) {
  const leaving = new AbortController();
  t.after(() => leaving.abort());
  const headers = server.token ? { authorization: `Bearer ${server.token}` } : {};
  const answer = await fetch(`${server.base}/v1/processes/${encodeURIComponent(id)}/output?from=0&follow=true&flow=lossless`, { headers, signal: leaving.signal });
  const pieces = [];
  const reading = (async () => {
    for await (const piece of answer.body) pieces.push(piece);
  })();
  // It ends by our leaving.
  reading.catch(() => {});
  const length = () => pieces.reduce((sum, piece) => sum + piece.length, 0);
  return {
    /** All that there was until now. A piece that came too late would be missing in it, and it would be too short. */
    async all() {
      const { outputEnd } = await server.call('GET', `/v1/processes/${id}`);
      await until('everything is read', () => length() === outputEnd);
      return Buffer.concat(pieces);
    },
  };
}
