// A shell in the console, whose prompt is known.

import { startBy, untilShown } from '../console.mjs';

export const PROMPT = 'ready>';

/** Nobody's start-up files decide a check. */
export async function startShell(page, tag) {
  await startBy(page, `exec env -u PROMPT_COMMAND PS1='${PROMPT} ' bash --norc --noprofile`, { tag });
  await untilShown(page.getByTestId('terminal'), PROMPT);
}

/** The size of the terminal in the page: `rows cols`, as stty says it. */
export const sizeIn = (page) => page.evaluate(() => `${globalThis.shownTerminal().rows} ${globalThis.shownTerminal().cols}`);

/** From the list, by somebody who did not start it. */
export async function openFromList(page, tag) {
  await page.getByTestId('process').getByText(tag, { exact: true }).click();
  await untilShown(page.getByTestId('terminal'), PROMPT);
}
