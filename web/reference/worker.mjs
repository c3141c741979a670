// Makes one check after the other, on a processor of its own.

import { parentPort } from 'node:worker_threads';
import { check } from './check.mjs';
import { streams } from './streams.mjs';

parentPort.on('message', async ({ program, stream, mode, seed, patience }) => {
  const begun = Date.now();
  let done;
  try {
    done = await check(program, streams([stream])[0], mode, seed, patience);
  } catch (error) {
    done = { failures: [String(error.stack ?? error)] };
  }
  parentPort.postMessage({ ...done, ms: Date.now() - begun });
});
