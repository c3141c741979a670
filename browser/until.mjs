// Waiting for a fact that has no event of its own.

const LIMIT_MS = 10_000;
const PAUSE_MS = 20;

export async function until(what, fact, limitMs = LIMIT_MS) {
  const end = Date.now() + limitMs;
  for (;;) {
    const value = await fact();
    if (value) return value;
    if (Date.now() > end) throw new Error(`waited ${limitMs} ms in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}
