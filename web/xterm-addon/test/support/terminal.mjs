// An emulator with the addon in it, and what it shows.

import headless from '@xterm/headless';
import { after } from 'node:test';
import { OutliveAddon } from '../../dist/index.js';

/** Loaded and not connected; `states` and `notices` are the names of those that came. */
export function open(options = {}, size = { cols: 80, rows: 24 }) {
  const terminal = new headless.Terminal({ allowProposedApi: true, ...size });
  const addon = new OutliveAddon(options);
  terminal.loadAddon(addon);
  after(() => terminal.dispose());
  const [states, notices, sizes] = [[], [], []];
  addon.onStateChange(({ name }) => states.push(name));
  addon.onNotice(({ code }) => notices.push(code));
  addon.onSizeChange(({ cols, rows }) => sizes.push(`${cols}x${rows}`));
  return { terminal, addon, states, notices, sizes };
}

/** Its lines without the empty ones. */
export function shown({ buffer }) {
  const { active } = buffer;
  return Array.from({ length: active.length }, (_, row) => active.getLine(row).translateToString(true)).filter((line) => line !== '');
}
