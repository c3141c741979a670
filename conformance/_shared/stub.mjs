#!/usr/bin/env node
// A server that says yes to everything: 200 and {}. A check that passes against it checks nothing.
// `node run.mjs --stub` must fail every single check.
//
// It takes the flags of `outlive serve` as far as suites use them, and says where it listens in the same words.

import { createServer } from 'node:http';

const flags = process.argv.slice(2);
const answer = (request, response) => {
  request.resume();
  request.once('end', () => response.writeHead(200, { 'content-type': 'application/json' }).end('{}'));
};
const listen = (name) => {
  const server = createServer(answer);
  server.listen(0, '127.0.0.1', () => console.log(`${name} on http://127.0.0.1:${server.address().port}`));
};
listen('listening');
flags.forEach((flag, at) => flag === '--dialect' && listen(flags[at + 1].split('=')[0]));
process.on('SIGTERM', () => process.exit(0));
