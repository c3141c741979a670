import type { PaneSpec } from '../panes/pane.js';
import type { Tree } from './tree.js';

const KEPT_AS = 'outlive.tabs';

export interface KeptTab {
  tree: Tree;
  /** The key of the pane that has (or had last) the focus. */
  focus: string;
}

interface Kept {
  tabs: KeptTab[];
  active: number;
  panes: Record<string, PaneSpec>;
}

/** A reload is one more connection that is outlived. */
export function keepTabs(tabs: KeptTab[], active: number, panes: Map<string, PaneSpec>): void {
  const kept: Kept = { tabs, active, panes: Object.fromEntries(panes) };
  sessionStorage.setItem(KEPT_AS, JSON.stringify(kept));
}

export function keptTabs(): Kept {
  const nothing: Kept = { tabs: [], active: 0, panes: {} };
  try {
    return { ...nothing, ...(JSON.parse(sessionStorage.getItem(KEPT_AS) ?? '{}') as Partial<Kept>) };
  } catch {
    return nothing;
  }
}
