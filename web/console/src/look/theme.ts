/** Light or dark: as the system says, unless chosen here. */

const KEPT_AS = 'outlive.theme';
const system = matchMedia('(prefers-color-scheme: dark)');
const listeners = new Set<() => void>();

export type Theme = 'light' | 'dark';

export function currentTheme(): Theme {
  const chosen = localStorage.getItem(KEPT_AS);
  if (chosen === 'light' || chosen === 'dark') return chosen;
  return system.matches ? 'dark' : 'light';
}

/** Choosing what the system says anyway is no choice: it goes on following the system. */
export function toggleTheme(): void {
  const next: Theme = currentTheme() === 'dark' ? 'light' : 'dark';
  if (next === (system.matches ? 'dark' : 'light')) localStorage.removeItem(KEPT_AS);
  else localStorage.setItem(KEPT_AS, next);
  apply();
}

export function onThemeChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function followTheme(): void {
  system.addEventListener('change', apply);
  apply();
}

function apply(): void {
  document.documentElement.dataset['theme'] = currentTheme();
  for (const listener of listeners) listener();
}
