// The attacker's web site: a page with the attack's script, and redirects to wherever it likes.

import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';

const script = readFileSync(new URL('attack.js', import.meta.url), 'utf8');

export const PAGE = `<!doctype html><title>cats</title><script>${script}</script><body>`;

/** Serves until the check is over and returns the port. */
export async function openSite(t) {
  const server = createServer(answer);
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return server.address().port;
}

function answer(request, response) {
  const { pathname, searchParams } = new URL(request.url, 'http://attacker');
  if (pathname === '/redirect') return redirect(request, response, searchParams.get('to'));
  // A sandboxed document has an origin that nobody else has: the browser calls it `null`.
  const policy = 'sandbox allow-scripts allow-forms allow-popups allow-popups-to-escape-sandbox';
  if (pathname === '/opaque') response.setHeader('content-security-policy', policy);
  response.setHeader('content-type', 'text/html');
  response.end(PAGE);
}

/** Keeps method and body, and stands in nobody's way. */
function redirect(request, response, to) {
  response.setHeader('access-control-allow-origin', '*');
  response.setHeader('access-control-allow-headers', 'authorization, content-type');
  if (request.method !== 'OPTIONS') response.setHeader('location', to);
  response.statusCode = request.method === 'OPTIONS' ? 204 : 307;
  response.end();
}
