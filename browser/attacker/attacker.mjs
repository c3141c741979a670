// Drives the attacker's page, one vector at a time.

import assert from 'node:assert/strict';
import { until } from '../harness.mjs';

/** Killing comes last: a dead process accepts no input. */
export const GOALS = ['list', 'output', 'ticket', 'create', 'run', 'input', 'kill'];

/** The vectors in attack.js that do not navigate the page away. */
export const VECTORS = [
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

/** Returns what the page's script could read. */
export function attack(page, vector, target, goals = GOALS) {
  return page.evaluate(
    ([name, data, requestedGoals]) => {
      /* global vectors */
      const redirected = (url) => data.redirect + encodeURIComponent(url);
      return vectors[name]({ ...data, redirected }, requestedGoals);
    },
    [vector, target, goals],
  );
}

/** Five POST requests in three content types. */
const BEACON_COUNT = 15;

/** Browsers send beacons at any time and report no result, so this waits until the server has rejected all of them. */
export function untilBeaconsAreForbidden(server, before) {
  const areForbidden = async () => (await server.forbiddenCount()) >= before + BEACON_COUNT;
  return until(`${BEACON_COUNT} beacons are rejected`, areForbidden);
}

/** Navigates the page to outlive with a form for every goal, and a window with a link. Returns what could be read. */
export async function attackFromTop(page, address, target, goals = GOALS) {
  for (const goal of goals.filter((name) => !['list', 'output'].includes(name))) {
    await page.goto(address);
    const response = page.waitForResponse((candidate) => candidate.request().isNavigationRequest());
    await page.evaluate(([data, requestedGoal]) => vectors.submitFromTop(data, requestedGoal), [target, goal]);
    assert.equal((await response).status(), 403, `navigation by a form for ${goal}`);
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
