/** The light or dark theme: that of the system, unless the user chose another one here. */

const STORAGE_KEY = 'outlive.theme';
const system = matchMedia('(prefers-color-scheme: dark)');
const listeners = new Set<() => void>();

export type Theme = 'light' | 'dark';

export function currentTheme(): Theme {
  const chosen = localStorage.getItem(STORAGE_KEY);
  if (chosen === 'light' || chosen === 'dark') return chosen;
  return system.matches ? 'dark' : 'light';
}

/** Choosing the theme of the system removes the choice, so the page follows the system again. */
export function toggleTheme(): void {
  const next: Theme = currentTheme() === 'dark' ? 'light' : 'dark';
  if (next === (system.matches ? 'dark' : 'light')) localStorage.removeItem(STORAGE_KEY);
  else localStorage.setItem(STORAGE_KEY, next);
  apply();
}

export function onThemeChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function initTheme(): void {
  system.addEventListener('change', apply);
  apply();
}

function apply(): void {
  document.documentElement.dataset['theme'] = currentTheme();
  for (const listener of listeners) listener();
}
