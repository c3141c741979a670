import type { Command } from './command.js';

/** Single keys, where nothing is typed into: not in a terminal, a field or a dialog. */
export function listenForPlainKeys(commands: Command[], signal: AbortSignal): void {
  addEventListener(
    'keydown',
    (event) => {
      if (event.defaultPrevented || event.altKey) return;
      const target = event.target as Element | null;
      const isTyped = target?.closest('input, textarea, select, dialog, [popover], .screen');
      if (isTyped) return;
      const key = (event.ctrlKey || event.metaKey ? 'Ctrl-' : '') + event.key;
      const command = commands.find(({ plainKey }) => plainKey === key);
      if (!command) return;
      event.preventDefault();
      command.run();
    },
    { signal },
  );
}
