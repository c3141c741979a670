// Drives the attacker's page from outside, one way of sending at a time.

import assert from 'node:assert/strict';
import { until } from '../until.mjs';

/** Killing comes last: what is dead cannot be typed at. */
export const GOALS = ['list', 'output', 'ticket', 'create', 'run', 'input', 'kill'];

/** Names of the ways in attack.js that a script can use without leaving its page. */
export const WAYS = [
  'fetch',
  'fetchNoCors',
  'fetchRedirected',
  'xhr',
  'form',
  'formRedirected',
  'elements',
  'beacon',
  'eventSource',
  'webSocket',
];

/** What the page's script could read. */
export function attack(page, way, target, goals = GOALS) {
  return page.evaluate(
    ([name, data, wanted]) => {
      /* global ways */
      const redirected = (url) => data.redirect + encodeURIComponent(url);
      return ways[name]({ ...data, redirected }, wanted);
    },
    [way, target, goals],
  );
}

/** Five requests that can be posted, in three content types. */
const BEACONS = 15;

/** The browser sends beacons when it likes, and nobody is told. So this waits until all of them were turned away. */
export function untilBeaconsAreForbidden(server, before) {
  return until(`${BEACONS} beacons were turned away`, async () => (await server.forbidden()) >= before + BEACONS);
}

/** Sends the page itself to outlive by a form, for every goal, and a window by a link. Returns what could be read. */
export async function attackFromTop(page, address, target, goals = GOALS) {
  for (const goal of goals.filter((name) => !['list', 'output'].includes(name))) {
    await page.goto(address);
    const answered = page.waitForResponse((response) => response.request().isNavigationRequest());
    await page.evaluate(([data, wanted]) => ways.submitFromTop(data, wanted), [target, goal]);
    assert.equal((await answered).status(), 403, `a page sent by a form to ${goal}`);
    await page.waitForURL((url) => url.pathname.startsWith('/v1/'));
  }
  await page.goto(address);
  const opening = page.context().waitForEvent('page');
  await page.evaluate((base) => void (globalThis.opened = globalThis.open(`${base}/v1/processes`)), target.base);
  await (await opening).waitForLoadState();
  return page.evaluate(() => {
    try {
      const text = globalThis.opened.document.body.innerText;
      return text ? [{ status: null, text }] : [];
    } catch {
      return [];
    }
  });
}
