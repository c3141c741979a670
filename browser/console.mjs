// Opens the console in a page and operates it as a user does.

import assert from 'node:assert/strict';
import { captureTerminals } from './display/cells.mjs';
import { until } from './harness.mjs';

/** The prompt of shells started with `startShell`. */
export const PROMPT = 'ready>';

/** The console's address, optionally by another base URL of the server. */
export function consoleAddress({ base, token }, baseUrl = base) {
  return `${baseUrl}/ui${token ? `#token=${token}` : ''}`;
}

/** Opens the console of a server. */
export function openConsole(t, server, options = {}) {
  return openPage(t, consoleAddress(server), options);
}

/**
 * Opens an address. `page.assertNoErrors()` fails if the browser reported errors, policy violations or requests to
 * other hosts. `allowedStatuses`: HTTP errors that the check provokes.
 */
export async function openPage(t, address, { allowedStatuses = [], ...options } = {}) {
  const page = await t.page({ viewport: { width: 1200, height: 800 }, ...options });
  await captureTerminals(page);
  const seen = { errors: [], hosts: new Set() };
  const isAllowed = (text) => allowedStatuses.some((status) => text.includes(`status of ${status}`));
  page.on('console', (message) => {
    const isProblem = ['error', 'warning'].includes(message.type());
    if (isProblem && !isAllowed(message.text())) seen.errors.push(message.text());
  });
  page.on('pageerror', (error) => seen.errors.push(error.message));
  page.on('request', (request) => request.url().startsWith('http') && seen.hosts.add(new URL(request.url()).host));
  await page.addInitScript(() => {
    globalThis.violations = [];
    document.addEventListener('securitypolicyviolation', (event) =>
      globalThis.violations.push(`${event.violatedDirective} ${event.sample}`),
    );
  });
  await page.goto(address);
  page.assertNoErrors = async () => {
    assert.deepEqual(seen.errors, [], 'errors in the browser console');
    assert.deepEqual(await page.evaluate(() => globalThis.violations), [], 'content security policy violations');
    assert.deepEqual([...seen.hosts], [new URL(address).host], 'requested hosts');
  };
  return page;
}

/** Starts a process with the dialog. */
export async function startProcess(page, command, { tag, isTerminal = true } = {}) {
  await page.getByTestId('start').click();
  await page.getByTestId('command').fill(command);
  if (tag) await page.getByTestId('tag').fill(tag);
  if (!isTerminal) await page.getByTestId('tty').uncheck();
  await page.getByTestId('start-submit').click();
}

/** Starts a shell with a known prompt and without the user's start-up files. */
export async function startShell(page, tag) {
  await startProcess(page, `exec env -u PROMPT_COMMAND PS1='${PROMPT} ' bash --norc --noprofile`, { tag });
  await untilShown(page.getByTestId('terminal'), PROMPT);
}

/** Opens a running shell from the process list. */
export async function openShellFromList(page, tag) {
  await page.getByTestId('process').getByText(tag, { exact: true }).click();
  await untilShown(page.getByTestId('terminal'), PROMPT);
}

/** The text that a terminal in the page shows. */
export async function screenText(terminal) {
  return (await terminal.locator('.xterm-rows > div').allInnerTexts()).join('\n');
}

/** The size of the terminal in the page, as `rows cols` like stty. */
export function sizeIn(page) {
  return page.evaluate(() => `${globalThis.visibleTerminal().rows} ${globalThis.visibleTerminal().cols}`);
}

export async function untilShown(terminal, text) {
  let shown = '';
  const isShown = async () => (shown = await screenText(terminal)).includes(text);
  await until(`the terminal shows ${text}`, isShown).catch((error) => {
    throw new Error(`${error.message}; it shows ${JSON.stringify(shown.trim())}`);
  });
}

/** Clicks on a terminal and types. */
export async function typeInto(page, terminal, text) {
  await terminal.click();
  await page.keyboard.type(text);
}

/** Presses the prefix and a key. */
export async function pressPrefix(page, key) {
  await page.keyboard.press('Control+\\');
  await page.keyboard.press(key);
}
