// Large output, slow readers, many terminals: nothing is lost, and a slow client delays no other.

import assert from 'node:assert/strict';
import { numbers, printNumbers } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';
import { decodeEntry, inBatches, MB, pause, readEvents, assertSameBytes } from '../support.mjs';

// Far more than a log keeps (10 MiB) plus all socket buffers.
const OVERRUN = 40 * MB;

/** A shell command that prepares `length` bytes and prints them at full speed when it reads a line. */
const printWhenTold = (length) =>
  `f=$(mktemp); ${printNumbers(length)} > "$f"; exec 3< "$f"; rm "$f"; echo up; read go; exec cat <&3`;

/** A pipe process that has printed `up` and prints `length` bytes on input. */
async function startPrinter(t, length) {
  const { id } = await t.startShell(printWhenTold(length));
  await t.waitForLog(id, 'up\n');
  return { id, go: () => t.agent.sendProcessInput(id, { data: '\n', encoding: 'utf8' }) };
}

/** The same on a terminal in raw output mode. */
async function startTerminalPrinter(t, length) {
  const { id } = await t.startShell(`stty -echo -opost; ${printWhenTold(length)}`, { tty: true });
  await t.waitForLog(id, 'up\n');
  return { id, go: () => t.agent.sendProcessInput(id, { data: '\n', encoding: 'utf8' }) };
}

// Without the `up`.
const FROM_NOW = { tail: 0 };

const hasExited = (t, id) => async () => (await t.agent.getProcess(id)).status === 'exited';

check('follow_of_24MB_is_exact', async (t) => {
  const { id, go } = await startPrinter(t, 24 * MB);
  const { bytes } = await t.follow(id, FROM_NOW);
  await go();
  await bytes.waitForLengthOrLoss(t, 24 * MB, hasExited(t, id));
  assertSameBytes(bytes.buffer(), numbers(24 * MB));
}, { seconds: 120 });

check('follow_by_a_slow_reader_loses_nothing', async (t) => {
  const { id, go } = await startPrinter(t, 24 * MB);
  const { bytes } = await t.follow(id, FROM_NOW, { agent: t.client({ fetch: sleepyFetch(2_500) }) });
  await go();
  await bytes.waitForLengthOrLoss(t, 24 * MB, hasExited(t, id));
  assertSameBytes(bytes.buffer(), numbers(24 * MB));
}, { seconds: 120 });

check('follow_reports_every_overrun', async (t) => {
  const { id, go } = await startPrinter(t, OVERRUN);
  // The response is not read until the program has finished; no server can keep all of the output.
  const response = await t.raw('GET', `/v1/processes/${id}/logs`, { query: { ...FROM_NOW, follow: 'true' } });
  await go();
  await t.waitForExit(id, 90_000);

  const expected = numbers(OVERRUN);
  let at = 0;
  try {
    for await (const { event, data } of readEvents(response)) {
      // Any other event reports the loss.
      if (event !== 'log') return;
      const chunk = decodeEntry(JSON.parse(data));
      if (!chunk.equals(expected.subarray(at, at + chunk.length))) assert.fail(`silent gap after ${at} bytes`);
      at += chunk.length;
      if (at === OVERRUN) return;
    }
  } catch (error) {
    // A broken stream also reports the loss. A failed comparison does not.
    if (error instanceof assert.AssertionError || t.signal.aborted) throw error;
    return;
  }
  assert.fail(`the stream ended like a complete one after ${at} of ${OVERRUN} bytes`);
}, { seconds: 120 });

check('terminal_output_of_20MB_is_exact', async (t) => {
  const { id, go } = await startTerminalPrinter(t, 20 * MB);
  const terminal = await t.attach(id);
  await go();
  assert.equal((await terminal.end(90_000)).exitCode, 0);
  assertSameBytes(terminal.bytes.buffer(), numbers(20 * MB));
}, { seconds: 120 });

check('terminal_slow_client_loses_nothing', async (t) => {
  const { id, go } = await startTerminalPrinter(t, 20 * MB);
  const terminal = await t.attach(id);
  await go();
  await terminal.bytes.waitForLength(1);
  terminal.socket.pause();
  await pause(2_500);
  terminal.socket.resume();
  await terminal.end(90_000);
  assertSameBytes(terminal.bytes.buffer(), numbers(20 * MB));
}, { seconds: 120 });

check('terminal_reports_every_overrun', async (t) => {
  const { id, go } = await startTerminalPrinter(t, OVERRUN);
  const terminal = await t.attach(id);
  terminal.socket.pause();
  await go();
  await t.waitForExit(id, 90_000);
  terminal.socket.resume();
  await terminal.closed;

  const [received, expected] = [terminal.bytes.buffer(), numbers(OVERRUN)];
  if (received.equals(expected)) return;
  const same = commonLength(received, expected);
  const { frames } = terminal.socket;
  const cutShort = same === received.length && ![1000, 1005].includes(frames.at(-1).code);
  assert.ok(cutShort || errorWithin(frames, same), `silent gap after ${same} bytes`);
}, { seconds: 120 });

check('terminal_stalled_client_does_not_stall_another', async (t) => {
  const { id, go } = await startTerminalPrinter(t, 20 * MB);
  const stalled = await t.attach(id);
  stalled.socket.pause();
  const other = await t.attach(id);
  await go();
  await other.bytes.waitForLength(20 * MB, 90_000);
  assertSameBytes(other.bytes.buffer().subarray(0, 20 * MB), numbers(20 * MB));
}, { seconds: 120 });

check('follow_stalled_reader_does_not_stall_another', async (t) => {
  const { id, go } = await startPrinter(t, 20 * MB);
  await t.raw('GET', `/v1/processes/${id}/logs`, { query: { ...FROM_NOW, follow: 'true' } });
  const other = await t.follow(id, FROM_NOW);
  await go();
  await other.bytes.waitForLength(20 * MB, 90_000);
  assertSameBytes(other.bytes.buffer(), numbers(20 * MB));
}, { seconds: 120 });

check('many_terminals_run_at_once', async (t) => {
  // More than the 512 threads of tokio's default pool for blocking work.
  await t.changeLimits({ maxConcurrentProcesses: 1_000 });
  const each = Array.from({ length: 560 }, (_, i) => i);
  const ids = await inBatches(each, 16, async (i) =>
    (await t.startShell('echo "terminal $1"; read line; echo "read $line"', { args: [String(i)], tty: true })).id);
  // All run before the first receives input, so none has exited to make room for another.
  await inBatches(each, 16, (i) => untilLog(t, ids[i], `terminal ${i}\r\n`));
  await inBatches(each, 16, (i) => t.agent.sendProcessInput(ids[i], { data: `${i}\n`, encoding: 'utf8' }));
  await inBatches(each, 16, (i) => untilLog(t, ids[i], `terminal ${i}\r\n${i}\r\nread ${i}\r\n`));
}, { seconds: 120 });

/** Waits for a log to start with a text. */
function untilLog(t, id, text) {
  const fact = async () => (await t.logBytes(id)).toString().startsWith(text);
  return t.waitFor(`the log is ${JSON.stringify(text)}`, fact);
}

/** A fetch that pauses before each read of a response body after the first chunk. */
function sleepyFetch(ms) {
  return async (url, init) => {
    const response = await fetch(url, init);
    if (!response.ok) return response;
    let slept = false;
    const sleepy = new TransformStream({
      async transform(chunk, controller) {
        controller.enqueue(chunk);
        if (!slept) await pause(ms);
        slept = true;
      },
    });
    return new Response(response.body.pipeThrough(sleepy), response);
  };
}

function commonLength(a, b) {
  let at = 0;
  while (at < a.length && at < b.length && a[at] === b[at]) at += 1;
  return at;
}

/** Whether an error frame came before the byte at `offset`. */
function errorWithin(frames, offset) {
  let at = 0;
  for (const { kind, length } of frames) {
    if (kind === 'error') return true;
    if (kind === 'bytes') at += length;
    if (at > offset) return false;
  }
  return false;
}
