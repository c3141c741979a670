/** Screen reader support of terminals. Off by default, because xterm.js keeps a second copy of the screen for it. */

const STORAGE_KEY = 'outlive.screen-reader';
const listeners = new Set<() => void>();

export function isScreenReaderMode(): boolean {
  return localStorage.getItem(STORAGE_KEY) === 'yes';
}

export function toggleScreenReaderMode(): void {
  if (isScreenReaderMode()) localStorage.removeItem(STORAGE_KEY);
  else localStorage.setItem(STORAGE_KEY, 'yes');
  for (const listener of listeners) listener();
}

export function onScreenReaderModeChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
