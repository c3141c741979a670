// The attacker's web site: a page with attack.js, and an open redirect.

import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';

const script = readFileSync(new URL('attack.js', import.meta.url), 'utf8');

export const PAGE = `<!doctype html><title>cats</title><script>${script}</script><body>`;

/** Serves until the end of the check; returns the port. */
export async function openSite(t) {
  const server = createServer(handle);
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return server.address().port;
}

function handle(request, response) {
  const { pathname, searchParams } = new URL(request.url, 'http://attacker');
  if (pathname === '/redirect') return redirect(request, response, searchParams.get('to'));
  // A sandboxed document has an opaque origin, which browsers send as `null`.
  const policy = 'sandbox allow-scripts allow-forms allow-popups allow-popups-to-escape-sandbox';
  if (pathname === '/opaque') response.setHeader('content-security-policy', policy);
  response.setHeader('content-type', 'text/html');
  response.end(PAGE);
}

/** Redirects with 307, which preserves method and body, and allows every origin. */
function redirect(request, response, to) {
  response.setHeader('access-control-allow-origin', '*');
  response.setHeader('access-control-allow-headers', 'authorization, content-type');
  if (request.method !== 'OPTIONS') response.setHeader('location', to);
  response.statusCode = request.method === 'OPTIONS' ? 204 : 307;
  response.end();
}
