/** Whether terminals are read out: xterm.js then keeps a second copy of the screen for screen readers, which costs. */

const KEPT_AS = 'outlive.screen-reader';
const listeners = new Set<() => void>();

export function isReadOut(): boolean {
  return localStorage.getItem(KEPT_AS) === 'yes';
}

export function toggleReadOut(): void {
  if (isReadOut()) localStorage.removeItem(KEPT_AS);
  else localStorage.setItem(KEPT_AS, 'yes');
  for (const listener of listeners) listener();
}

export function onReadOutChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
