#!/usr/bin/env node
// A server that responds to every request with 200 and {}. A check that passes against it verifies nothing, so
// `node run.mjs --stub` requires every check to fail.
//
// It accepts the flags of `outlive serve` that the suites use, and prints its addresses in the same format.

import { createServer } from 'node:http';

const flags = process.argv.slice(2);
const respond = (request, response) => {
  request.resume();
  request.once('end', () => response.writeHead(200, { 'content-type': 'application/json' }).end('{}'));
};
const listen = (name) => {
  const server = createServer(respond);
  server.listen(0, '127.0.0.1', () => console.log(`${name} on http://127.0.0.1:${server.address().port}`));
};
listen('listening');
flags.forEach((flag, index) => flag === '--dialect' && listen(flags[index + 1].split('=')[0]));
process.on('SIGTERM', () => process.exit(0));
