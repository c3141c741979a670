// A program that prints as fast as it can for 30 seconds. All measurements are printed; the limits leave room for busy
// machines.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { openPage, PROMPT, startShell } from '../../console.mjs';
import { check, until } from '../../harness.mjs';
import { Outlive } from '../../outlive.mjs';

const MEGABYTE = 1024 * 1024;
const MAX_FRAME_GAP_MS = 3_000;
/** The goal is 200 ms. This limit only ensures that Ctrl-C does not wait for all earlier output. */
const MAX_INTERRUPT_MS = 3_000;
const MAX_TAB_GROWTH_BYTES = 20 * MEGABYTE;
const MAX_SERVER_GROWTH_BYTES = 32 * MEGABYTE;

async function residentBytes(pid) {
  const [, kilobytes] = (await readFile(`/proc/${pid}/status`, 'utf8')).match(/VmRSS:\s+(\d+) kB/);
  return Number(kilobytes) * 1024;
}

async function heapBytes(devtools) {
  await devtools.send('HeapProfiler.collectGarbage');
  return (await devtools.send('Runtime.getHeapUsage')).usedSize;
}

/** Starts to measure the time between animation frames. */
const measureFrameGaps = (page) =>
  page.evaluate(() => {
    globalThis.gaps = [];
    let previous = performance.now();
    const onFrame = (now) => {
      globalThis.gaps.push(now - previous);
      previous = now;
      requestAnimationFrame(onFrame);
    };
    requestAnimationFrame(onFrame);
  });

/** Starts to measure the time from Ctrl-C until the prompt is in the terminal's buffer, in the page. */
const measureInterrupt = (page, prompt) =>
  page.evaluate((expected) => {
    const terminal = globalThis.visibleTerminal();
    let pressed;
    addEventListener('keydown', ({ key }) => key === 'c' && (pressed ??= performance.now()), { capture: true });
    const hasPrompt = () => {
      const buffer = terminal.buffer.active;
      return buffer
        .getLine(buffer.baseY + buffer.cursorY)
        .translateToString()
        .startsWith(expected);
    };
    terminal.onWriteParsed(() => {
      if (pressed !== undefined && hasPrompt()) globalThis.interruptMs ??= performance.now() - pressed;
    });
  }, prompt);

check(
  'display/a_flood_of_30_seconds_leaves_the_tab_responsive_and_small',
  async (t) => {
    const server = await Outlive.start(t);
    const page = await openPage(t, server.link);
    const devtools = await page.context().newCDPSession(page);
    await startShell(page, 'flood');
    const { serverPid } = await server.call('GET', '/v1/health');
    const printed = async () => (await server.call('GET', '/v1/processes/tag:flood')).outputEnd;
    await page.keyboard.type('yes\n');
    const isFlooded = async () => (await printed()) > MEGABYTE;
    await until('a flood', isFlooded);
    await measureFrameGaps(page);

    await pause(10_000);
    const [heap, resident, bytes] = [await heapBytes(devtools), await residentBytes(serverPid), await printed()];
    const roundTrips = [];
    for (let second = 0; second < 20; second += 1) {
      const startedAt = performance.now();
      await page.evaluate(() => 1);
      roundTrips.push(performance.now() - startedAt);
      await pause(1_000);
    }
    const growth = { heap: (await heapBytes(devtools)) - heap, resident: (await residentBytes(serverPid)) - resident };
    const perSecond = ((await printed()) - bytes) / 20;
    const gaps = (await page.evaluate(() => globalThis.gaps)).sort((a, b) => a - b);

    await measureInterrupt(page, PROMPT);
    await page.keyboard.press('Control+c');
    const interruptMs = await until('the prompt', () => page.evaluate(() => globalThis.interruptMs));

    const ms = (number) => `${Math.round(number)} ms`;
    const mb = (number) => `${(number / MEGABYTE).toFixed(1)} MB`;
    t.measured.push(
      `${mb(perSecond)}/s`,
      `prompt ${ms(interruptMs)} after Ctrl-C`,
      `frame gaps: median ${ms(gaps[gaps.length >> 1])}, max ${ms(gaps.at(-1))}`,
      `round trip: max ${ms(Math.max(...roundTrips))}`,
      `tab ${mb(heap)}, then ${mb(heap + growth.heap)}`,
      `server ${mb(resident)}, then ${mb(resident + growth.resident)}`,
    );
    assert.ok(perSecond > 0, 'the program keeps printing');
    assert.ok(gaps.at(-1) < MAX_FRAME_GAP_MS, 'the tab draws');
    assert.ok(Math.max(...roundTrips) < MAX_FRAME_GAP_MS, 'the tab responds');
    assert.ok(interruptMs < MAX_INTERRUPT_MS, 'Ctrl-C takes effect');
    assert.ok(growth.heap < MAX_TAB_GROWTH_BYTES, 'the memory of the tab is bounded');
    assert.ok(growth.resident < MAX_SERVER_GROWTH_BYTES, 'the memory of the server is bounded');
  },
  { seconds: 90 },
);
