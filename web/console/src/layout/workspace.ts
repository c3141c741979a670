import type { Console } from '../console.js';
import { element, fill, setText } from '../page/element.js';
import { icon } from '../page/icons.js';
import { paneStatus, paneTitle } from '../panes/frame.js';
import type { CreatePane, Pane, PaneSpec } from '../panes/pane.js';
import { dividerElement } from './divider.js';
import { computeLayout, neighbour, type Side } from './geometry.js';
import { loadLayout, saveLayout, type Tab } from './saved_layout.js';
import { close, type Direction, keys, leaf, moveDivider, split, type Tree } from './tree.js';

interface OpenPane {
  spec: PaneSpec;
  pane: Pane;
}

const MIDDLE_BUTTON = 1;

/** Tabs with panes. Elements of panes never move in the document, only their position and size change. */
export class Workspace {
  readonly element: HTMLElement;
  readonly #console: Console;
  readonly #createPane: CreatePane;
  readonly #tabList = element('div', { class: 'tabs', role: 'tablist', 'aria-label': 'Open tabs' });
  readonly #area = element('div', { class: 'panes', 'data-testid': 'panes' });
  readonly #empty: HTMLElement;
  readonly #panes = new Map<string, OpenPane>();
  #tabs: Tab[] = [];
  #active = 0;
  #isRestored = false;
  readonly #focusListeners = new Set<() => void>();
  #nextKey = 1;

  /** `empty` is shown when no tab is open. */
  constructor(console: Console, createPane: CreatePane, empty: HTMLElement) {
    this.#console = console;
    this.#createPane = createPane;
    this.#empty = empty;
    const back = element(
      'button',
      { class: 'quiet icon-only back', 'aria-label': 'Back to the list', onclick: () => console.showSidebar() },
      icon('back'),
    );
    this.element = element(
      'main',
      { class: 'workspace', 'aria-label': 'Workspace' },
      element('div', { class: 'tab-bar' }, back, this.#tabList),
      this.#area,
      empty,
    );
    console.processes.onChange(() => this.#drawTabs());
  }

  /** Called when another pane gets the focus or the last pane is closed. */
  onFocusChange(listener: () => void): void {
    this.#focusListeners.add(listener);
  }

  get isEmpty(): boolean {
    return this.#tabs.length === 0;
  }

  get focused(): { key: string; spec: PaneSpec } | undefined {
    const tab = this.#tabs[this.#active];
    const open = tab && this.#panes.get(tab.focus);
    return open && { key: tab.focus, spec: open.spec };
  }

  /** Restores the layout from before a reload, once. `open` calls it too, so that new panes do not get saved keys. */
  restore(): void {
    if (this.#isRestored) return;
    this.#isRestored = true;
    const { tabs, active, panes } = loadLayout();
    const { processes } = this.#console;
    for (const [key, spec] of Object.entries(panes)) {
      const isGone = spec.kind !== 'session' && processes.isLoaded && !processes.get(spec.id);
      if (!isGone) this.#add(key, spec);
    }
    for (const tab of tabs) {
      const gone = keys(tab.tree).filter((key) => !this.#panes.has(key));
      const tree = gone.reduce<Tree | undefined>((rest, key) => rest && close(rest, key), tab.tree);
      if (tree) this.#tabs.push({ tree, focus: gone.includes(tab.focus) ? keys(tree)[0]! : tab.focus });
    }
    this.#active = Math.min(active, Math.max(0, this.#tabs.length - 1));
    this.#draw();
    this.focus();
  }

  /** Opens a pane in its own tab (or focuses the existing one), or beside the focused pane. */
  open(spec: PaneSpec, where: 'tab' | Direction = 'tab'): void {
    this.restore();
    this.#console.showWorkspace();
    const tab = this.#tabs[this.#active];
    if (where === 'tab' || !tab) {
      const existing = [...this.#panes].find(([, open]) => open.spec.kind === spec.kind && open.spec.id === spec.id);
      if (existing) return this.focusPane(existing[0]);
      const key = this.#newKey();
      this.#add(key, spec);
      this.#active = this.#tabs.push({ tree: leaf(key), focus: key }) - 1;
    } else {
      const key = this.#newKey();
      this.#add(key, spec);
      tab.tree = split(tab.tree, tab.focus, where, key);
      tab.focus = key;
    }
    this.#draw();
    this.focus();
  }

  closePane(key = this.focused?.key): void {
    const index = this.#tabs.findIndex(({ tree }) => keys(tree).includes(key ?? ''));
    const tab = this.#tabs[index];
    if (!tab || key === undefined) return;
    this.#remove(key);
    const rest = close(tab.tree, key);
    if (rest) {
      tab.tree = rest;
      if (tab.focus === key) tab.focus = keys(rest)[0]!;
    } else {
      this.#tabs.splice(index, 1);
      if (this.#active >= index) this.#active = Math.max(0, this.#active - 1);
    }
    this.#draw();
    if (this.isEmpty) this.#console.showSidebar();
    else this.focus();
  }

  closeTab(index: number): void {
    const tab = this.#tabs[index];
    if (tab) for (const key of keys(tab.tree)) this.closePane(key);
  }

  /** Closes all panes of a process that was deleted. */
  closeAllOf(id: string): void {
    for (const [key, open] of [...this.#panes])
      if (open.spec.id === id && open.spec.kind !== 'session') this.closePane(key);
  }

  closeSession(id: string): void {
    for (const [key, open] of [...this.#panes])
      if (open.spec.id === id && open.spec.kind === 'session') this.closePane(key);
  }

  showTab(index: number): void {
    if (!this.#tabs[index]) return;
    this.#active = index;
    this.#draw();
    this.focus();
  }

  stepTab(by: number): void {
    const count = this.#tabs.length;
    if (count > 0) this.showTab((this.#active + by + count) % count);
  }

  focusPane(key: string): void {
    const index = this.#tabs.findIndex(({ tree }) => keys(tree).includes(key));
    const tab = this.#tabs[index];
    if (!tab) return;
    tab.focus = key;
    this.#active = index;
    this.#draw();
    this.focus();
  }

  focusSide(side: Side): void {
    const tab = this.#tabs[this.#active];
    const next = tab && neighbour(tab.tree, tab.focus, side);
    if (next) this.focusPane(next);
  }

  /** The selected text in the focused pane. */
  get selection(): string {
    const tab = this.#tabs[this.#active];
    return (tab && this.#panes.get(tab.focus)?.pane.selection?.()) || (getSelection()?.toString() ?? '');
  }

  focus(): void {
    const tab = this.#tabs[this.#active];
    if (tab) this.#panes.get(tab.focus)?.pane.focus();
  }

  /** Closes all panes. The saved layout stays for the next load. */
  dispose(): void {
    for (const key of [...this.#panes.keys()]) this.#remove(key);
  }

  #newKey(): string {
    while (this.#panes.has(`pane-${this.#nextKey}`)) this.#nextKey += 1;
    return `pane-${this.#nextKey}`;
  }

  #add(key: string, spec: PaneSpec): void {
    const pane = this.#createPane(this.#console, spec, key);
    pane.element.addEventListener('focusin', () => this.#onPaneFocus(key));
    pane.element.addEventListener('pointerdown', () => this.#onPaneFocus(key));
    this.#panes.set(key, { spec, pane });
    this.#area.append(pane.element);
  }

  #remove(key: string): void {
    const open = this.#panes.get(key);
    this.#panes.delete(key);
    open?.pane.element.remove();
    open?.pane.dispose();
  }

  #onPaneFocus(key: string): void {
    const tab = this.#tabs[this.#active];
    if (!tab || tab.focus === key || !keys(tab.tree).includes(key)) return;
    tab.focus = key;
    this.#draw();
  }

  #draw(): void {
    const tab = this.#tabs[this.#active];
    const { panes, dividers } = tab ? computeLayout(tab.tree) : { panes: new Map(), dividers: [] };
    for (const [key, { pane }] of this.#panes) {
      const rect = panes.get(key);
      pane.element.hidden = !rect;
      pane.element.classList.toggle('focused', key === tab?.focus && panes.size > 1);
      if (!rect) continue;
      for (const side of ['left', 'top', 'width', 'height'] as const) pane.element.style[side] = `${rect[side] * 100}%`;
    }
    for (const old of this.#area.querySelectorAll('.divider')) old.remove();
    for (const divider of dividers) {
      const move = (by: number) => {
        if (!tab) return;
        tab.tree = moveDivider(tab.tree, divider.path, divider.index, by);
        this.#draw();
      };
      this.#area.append(dividerElement(this.#area, divider, move));
    }
    this.#empty.hidden = !this.isEmpty;
    this.#area.hidden = this.isEmpty;
    this.#drawTabs();
    for (const listener of this.#focusListeners) listener();
    saveLayout(this.#tabs, this.#active, new Map([...this.#panes].map(([key, { spec }]) => [key, spec])));
  }

  #drawTabs(): void {
    const drawn = this.#tabs.map((tab, index) => this.#tabElement(tab, index));
    const hadFocus = this.#tabList.contains(document.activeElement);
    fill(this.#tabList, ...drawn);
    drawn[this.#active]?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    if (hadFocus) this.#tabList.querySelector<HTMLElement>('[aria-selected=true]')?.focus();
    const title = this.focused && paneTitle(this.#console, this.focused.spec);
    setText(document.head.querySelector('title')!, title ? `${title} · outlive` : 'outlive');
  }

  #tabElement(tab: Tab, index: number): HTMLElement {
    const { spec } = this.#panes.get(tab.focus)!;
    const count = keys(tab.tree).length;
    const title = paneTitle(this.#console, spec);
    const isActive = index === this.#active;
    const onkeydown = (event: KeyboardEvent) => {
      if (event.key === 'ArrowRight' || event.key === 'ArrowLeft') {
        const count = this.#tabs.length;
        this.#active = (this.#active + (event.key === 'ArrowRight' ? 1 : -1) + count) % count;
        this.#draw();
      } else if (event.key === 'Delete') this.closeTab(index);
    };
    const closeTab = () => this.closeTab(index);
    const onauxclick = (event: MouseEvent) => event.button === MIDDLE_BUTTON && closeTab();
    return element(
      'div',
      { class: `tab ${isActive ? 'active' : ''}`, role: 'none', onauxclick },
      element(
        'button',
        {
          role: 'tab',
          'aria-selected': String(isActive),
          tabindex: isActive ? 0 : -1,
          title,
          onclick: () => this.showTab(index),
          onkeydown,
          'data-testid': 'tab',
        },
        element('span', { class: `dot ${paneStatus(this.#console, spec)}` }),
        element('span', { class: 'tab-title' }, title),
        count > 1 ? element('span', { class: 'count' }, String(count)) : null,
      ),
      // ARIA allows only tabs in a tab list, so this button is for the mouse; the keyboard uses Delete on the tab.
      element(
        'button',
        { class: 'quiet icon-only', tabindex: -1, 'aria-hidden': 'true', title: 'Close', onclick: closeTab },
        icon('close'),
      ),
    );
  }
}
