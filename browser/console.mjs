// The console in a page, as a person sees it, and what that person would not see.

import assert from 'node:assert/strict';
import { until } from './until.mjs';

/** Opens the console of a server. Whatever the browser complains about fails the check at its end. */
export function openConsole(t, server, options = {}) {
  return openAt(t, `${server.base}/ui${server.token ? `#token=${server.token}` : ''}`, options);
}

export async function openAt(t, address, { refusals = [], before = () => {}, ...options } = {}) {
  const page = await t.page({ viewport: { width: 1200, height: 800 }, ...options });
  await before(page);
  const seen = { complaints: [], hosts: new Set() };
  // That a request was refused is said by the browser too; a check that provokes it says so.
  const isExpected = (text) => refusals.some((status) => text.includes(`status of ${status}`));
  page.on(
    'console',
    (message) => ['error', 'warning'].includes(message.type()) && !isExpected(message.text()) && seen.complaints.push(message.text()),
  );
  page.on('pageerror', (error) => seen.complaints.push(error.message));
  page.on('request', (request) => request.url().startsWith('http') && seen.hosts.add(new URL(request.url()).host));
  await page.addInitScript(() => {
    globalThis.violations = [];
    document.addEventListener('securitypolicyviolation', (event) =>
      globalThis.violations.push(`${event.violatedDirective} ${event.sample}`),
    );
  });
  await page.goto(address);
  page.inPeace = async () => {
    assert.deepEqual(seen.complaints, [], 'the console of the browser');
    assert.deepEqual(await page.evaluate(() => globalThis.violations), [], 'violations of the content security policy');
    assert.deepEqual([...seen.hosts], [new URL(address).host], 'hosts that were asked');
  };
  return page;
}

/** Starts something by the dialog. */
export async function startBy(page, command, { tag, isTerminal = true } = {}) {
  await page.getByTestId('start').click();
  await page.getByTestId('command').fill(command);
  if (tag) await page.getByTestId('tag').fill(tag);
  if (!isTerminal) await page.getByTestId('tty').uncheck();
  await page.getByTestId('start-submit').click();
}

/** What a terminal in the page shows, as text. */
export async function screenText(terminal) {
  return (await terminal.locator('.xterm-rows > div').allInnerTexts()).join('\n');
}

export async function untilShown(terminal, text) {
  let shown = '';
  const isShown = async () => (shown = await screenText(terminal)).includes(text);
  await until(`the terminal shows ${text}`, isShown).catch((error) => {
    throw new Error(`${error.message}; it shows ${JSON.stringify(shown.trim())}`);
  });
}

/** Types where the focus is, when it is in a terminal. */
export async function typeInto(page, terminal, text) {
  await terminal.click();
  await page.keyboard.type(text);
}

export async function prefix(page, key) {
  await page.keyboard.press('Control+\\');
  await page.keyboard.press(key);
}
