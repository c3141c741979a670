// A worker thread that runs one check after the other.

import { parentPort } from 'node:worker_threads';
import { check } from './check.mjs';
import { streams } from './streams.mjs';

parentPort.on('message', async ({ program, stream, mode, seed, maxFailures }) => {
  const startedAt = Date.now();
  let result;
  try {
    result = await check(program, streams([stream])[0], mode, seed, maxFailures);
  } catch (error) {
    result = { failures: [String(error.stack ?? error)] };
  }
  parentPort.postMessage({ ...result, ms: Date.now() - startedAt });
});
