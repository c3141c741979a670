// The expected content of a terminal: all its output, written to a headless emulator at once.

import assert from 'node:assert/strict';
import unicode11 from '@xterm/addon-unicode11';
import headless from '@xterm/headless';
import { until } from '../harness.mjs';
import { describeCells } from './cells.mjs';

/** The same as in the console. */
const SCROLLBACK_LINES = 5000;

export async function renderCells(bytes, { cols, rows }) {
  const terminal = new headless.Terminal({ cols, rows, scrollback: SCROLLBACK_LINES, allowProposedApi: true });
  terminal.loadAddon(new unicode11.Unicode11Addon());
  terminal.unicode.activeVersion = '11';
  await new Promise((resolve) => terminal.write(bytes, resolve));
  const cells = describeCells(terminal);
  terminal.dispose();
  return cells;
}

/** Reads the output from its first byte; fails if the log no longer has it. */
export async function readAllOutput(server, id) {
  const headers = server.token ? { authorization: `Bearer ${server.token}` } : {};
  const response = await fetch(`${server.base}/v1/processes/${encodeURIComponent(id)}/output?from=0`, { headers });
  assert.equal(response.status, 200, 'the log has all output');
  assert.equal(response.headers.get('x-outlive-offset'), '0');
  return new Uint8Array(await response.arrayBuffer());
}

/** Follows the output from its first byte, for programs that print more than the log keeps. */
export async function followOutput(t, server, id) {
  const abort = new AbortController();
  t.after(() => abort.abort());
  const headers = server.token ? { authorization: `Bearer ${server.token}` } : {};
  const url = `${server.base}/v1/processes/${encodeURIComponent(id)}/output?from=0&follow=true&flow=lossless`;
  const response = await fetch(url, { headers, signal: abort.signal });
  const chunks = [];
  const reading = (async () => {
    for await (const chunk of response.body) chunks.push(chunk);
  })();
  // Aborting the request rejects this promise.
  reading.catch(() => {});
  const length = () => chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  return {
    /** All output so far. */
    async all() {
      const { outputEnd } = await server.call('GET', `/v1/processes/${id}`);
      await until('all output is read', () => length() === outputEnd);
      return Buffer.concat(chunks);
    },
  };
}
