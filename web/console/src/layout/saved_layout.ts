import type { PaneSpec } from '../panes/pane.js';
import type { Tree } from './tree.js';

const STORAGE_KEY = 'outlive.tabs';

export interface Tab {
  tree: Tree;
  /** Key of the pane that has the focus, or had it last. */
  focus: string;
}

/** The open tabs and panes, stored for the next load of this page. */
interface SavedLayout {
  tabs: Tab[];
  active: number;
  panes: Record<string, PaneSpec>;
}

export function saveLayout(tabs: Tab[], active: number, panes: Map<string, PaneSpec>): void {
  const layout: SavedLayout = { tabs, active, panes: Object.fromEntries(panes) };
  sessionStorage.setItem(STORAGE_KEY, JSON.stringify(layout));
}

export function loadLayout(): SavedLayout {
  const empty: SavedLayout = { tabs: [], active: 0, panes: {} };
  try {
    return { ...empty, ...(JSON.parse(sessionStorage.getItem(STORAGE_KEY) ?? '{}') as Partial<SavedLayout>) };
  } catch {
    return empty;
  }
}
