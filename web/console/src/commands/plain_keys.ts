/** Single keys, where nothing is typed into: not in a terminal, a field or a dialog. */
export function listenForPlainKeys(keys: Record<string, () => void>, signal: AbortSignal): void {
  addEventListener(
    'keydown',
    (event) => {
      if (event.defaultPrevented || event.altKey) return;
      const target = event.target as Element | null;
      const isTyped = target?.closest('input, textarea, select, dialog, [popover], .screen');
      if (isTyped) return;
      const key = (event.ctrlKey || event.metaKey ? 'Ctrl-' : '') + event.key;
      const act = keys[key];
      if (!act) return;
      event.preventDefault();
      act();
    },
    { signal },
  );
}
