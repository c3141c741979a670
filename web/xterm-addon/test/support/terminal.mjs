// A headless emulator with the addon loaded.

import headless from '@xterm/headless';
import { after } from 'node:test';
import { OutliveAddon } from '../../dist/index.js';

/** Returns a terminal that is not connected. `states`, `notices` and `sizes` collect the events of the addon. */
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

/** The lines that are not empty. */
export function shown({ buffer }) {
  const { active } = buffer;
  return Array.from({ length: active.length }, (_, row) => active.getLine(row).translateToString(true)).filter(
    (line) => line !== '',
  );
}
