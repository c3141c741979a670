// Bundles the page and serves it from its own origin.

import { createServer } from 'node:http';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

export async function openSandboxSite(t) {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL('page.js', import.meta.url))],
    outdir: '/',
    bundle: true,
    format: 'iife',
    write: false,
    logLevel: 'silent',
  });
  const [script, style] = ['.js', '.css'].map((end) => outputFiles.find(({ path }) => path.endsWith(end)).text);
  const files = {
    '/': [
      'text/html',
      '<!doctype html><meta charset="utf-8"><title>a sandbox</title><link rel="stylesheet" href="page.css"><body><script src="page.js"></script>',
    ],
    '/page.js': ['text/javascript', script],
    '/page.css': ['text/css', style],
  };
  const server = createServer((request, response) => {
    const [kind, text] = files[request.url] ?? [];
    response.writeHead(kind ? 200 : 404, { 'content-type': `${kind ?? 'text/plain'}; charset=utf-8` }).end(text);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return `http://127.0.0.1:${server.address().port}`;
}
