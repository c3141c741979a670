import type { Console } from '../console.js';
import { element, fill, setText } from '../page/element.js';
import { icon } from '../page/icons.js';
import type { MakePane, Pane, PaneSpec } from '../panes/pane.js';
import { paneMood, paneTitle } from '../panes/title.js';
import { dividerElement } from './divider.js';
import { neighbour, places, type Side } from './places.js';
import { keepTabs, keptTabs, type KeptTab } from './kept.js';
import { close, type Direction, keys, leaf, moveDivider, split, type Tree } from './tree.js';

interface OpenPane {
  spec: PaneSpec;
  pane: Pane;
}

/** A mouse's button. */
const MIDDLE = 1;

/** Tabs, and in each of them panes that share its place. Panes stay where they are in the document: only their places change. */
export class Workspace {
  readonly element: HTMLElement;
  readonly #console: Console;
  readonly #make: MakePane;
  readonly #tabList = element('div', { class: 'tabs', role: 'tablist', 'aria-label': 'Open tabs' });
  readonly #area = element('div', { class: 'panes', 'data-testid': 'panes' });
  readonly #empty: HTMLElement;
  readonly #panes = new Map<string, OpenPane>();
  #tabs: KeptTab[] = [];
  #active = 0;
  #isRestored = false;
  readonly #listeners = new Set<() => void>();
  #nextKey = 1;

  constructor(console: Console, make: MakePane, empty: HTMLElement) {
    this.#console = console;
    this.#make = make;
    this.#empty = empty;
    const back = element(
      'button',
      { class: 'quiet icon-only back', 'aria-label': 'Back to the list', onclick: () => console.showList() },
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

  /** Another pane has the focus, or none is left. */
  onFocusChange(listener: () => void): void {
    this.#listeners.add(listener);
  }

  get isEmpty(): boolean {
    return this.#tabs.length === 0;
  }

  get focused(): { key: string; spec: PaneSpec } | undefined {
    const tab = this.#tabs[this.#active];
    const open = tab && this.#panes.get(tab.focus);
    return open && { key: tab.focus, spec: open.spec };
  }

  /** As it was before a reload, once; at the latest when something is opened, so that nothing that is new is taken for old. */
  restore(): void {
    if (this.#isRestored) return;
    this.#isRestored = true;
    const { tabs, active, panes } = keptTabs();
    const { processes } = this.#console;
    for (const [key, spec] of Object.entries(panes)) {
      const isGone = spec.kind !== 'session' && processes.isKnown && !processes.get(spec.id);
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

  /** In a tab of its own (or the one that has it already), or beside the focused pane. */
  open(spec: PaneSpec, where: 'tab' | Direction = 'tab'): void {
    this.restore();
    this.#console.showWork();
    const tab = this.#tabs[this.#active];
    if (where === 'tab' || !tab) {
      const there = [...this.#panes].find(([, open]) => open.spec.kind === spec.kind && open.spec.id === spec.id);
      if (there) return this.focusPane(there[0]);
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

  /** Shows something else in the same place. */
  replace(key: string, spec: PaneSpec): void {
    const tab = this.#tabs.find(({ tree }) => keys(tree).includes(key));
    if (!tab) return this.open(spec);
    this.#remove(key);
    this.#add(key, spec);
    this.#draw();
    this.focus();
  }

  closePane(key = this.focused?.key): void {
    const at = this.#tabs.findIndex(({ tree }) => keys(tree).includes(key ?? ''));
    const tab = this.#tabs[at];
    if (!tab || key === undefined) return;
    this.#remove(key);
    const rest = close(tab.tree, key);
    if (rest) {
      tab.tree = rest;
      if (tab.focus === key) tab.focus = keys(rest)[0]!;
    } else {
      this.#tabs.splice(at, 1);
      if (this.#active >= at) this.#active = Math.max(0, this.#active - 1);
    }
    this.#draw();
    if (this.isEmpty) this.#console.showList();
    else this.focus();
  }

  closeTab(at: number): void {
    const tab = this.#tabs[at];
    if (tab) for (const key of keys(tab.tree)) this.closePane(key);
  }

  /** Whatever shows it, such as a process that was deleted. */
  closeAllOf(id: string): void {
    for (const [key, open] of [...this.#panes]) if (open.spec.id === id && open.spec.kind !== 'session') this.closePane(key);
  }

  closeSession(id: string): void {
    for (const [key, open] of [...this.#panes]) if (open.spec.id === id && open.spec.kind === 'session') this.closePane(key);
  }

  showTab(at: number): void {
    if (!this.#tabs[at]) return;
    this.#active = at;
    this.#draw();
    this.focus();
  }

  stepTab(by: number): void {
    const count = this.#tabs.length;
    if (count > 0) this.showTab((this.#active + by + count) % count);
  }

  focusPane(key: string): void {
    const at = this.#tabs.findIndex(({ tree }) => keys(tree).includes(key));
    const tab = this.#tabs[at];
    if (!tab) return;
    tab.focus = key;
    this.#active = at;
    this.#draw();
    this.focus();
  }

  focusSide(side: Side): void {
    const tab = this.#tabs[this.#active];
    const next = tab && neighbour(tab.tree, tab.focus, side);
    if (next) this.focusPane(next);
  }

  /** What is marked in the focused pane. */
  get selection(): string {
    const tab = this.#tabs[this.#active];
    return (tab && this.#panes.get(tab.focus)?.pane.selection?.()) || (getSelection()?.toString() ?? '');
  }

  focus(): void {
    const tab = this.#tabs[this.#active];
    if (tab) this.#panes.get(tab.focus)?.pane.focus();
  }

  /** Detaches from everything; what was open is still kept for the next time. */
  dispose(): void {
    for (const key of [...this.#panes.keys()]) this.#remove(key);
  }

  #newKey(): string {
    while (this.#panes.has(`pane-${this.#nextKey}`)) this.#nextKey += 1;
    return `pane-${this.#nextKey}`;
  }

  #add(key: string, spec: PaneSpec): void {
    const pane = this.#make(this.#console, spec, key);
    pane.element.addEventListener('focusin', () => this.#noteFocus(key));
    pane.element.addEventListener('pointerdown', () => this.#noteFocus(key));
    this.#panes.set(key, { spec, pane });
    this.#area.append(pane.element);
  }

  #remove(key: string): void {
    const open = this.#panes.get(key);
    this.#panes.delete(key);
    open?.pane.element.remove();
    open?.pane.dispose();
  }

  #noteFocus(key: string): void {
    const tab = this.#tabs[this.#active];
    if (!tab || tab.focus === key || !keys(tab.tree).includes(key)) return;
    tab.focus = key;
    this.#draw();
  }

  #draw(): void {
    const tab = this.#tabs[this.#active];
    const { panes, dividers } = tab ? places(tab.tree) : { panes: new Map(), dividers: [] };
    for (const [key, { pane }] of this.#panes) {
      const place = panes.get(key);
      pane.element.hidden = !place;
      pane.element.classList.toggle('focused', key === tab?.focus && panes.size > 1);
      if (!place) continue;
      for (const side of ['left', 'top', 'width', 'height'] as const) pane.element.style[side] = `${place[side] * 100}%`;
    }
    for (const old of this.#area.querySelectorAll('.divider')) old.remove();
    for (const divider of dividers) {
      const move = (by: number) => {
        if (!tab) return;
        tab.tree = moveDivider(tab.tree, divider.path, divider.at, by);
        this.#draw();
      };
      this.#area.append(dividerElement(this.#area, divider, move));
    }
    this.#empty.hidden = !this.isEmpty;
    this.#area.hidden = this.isEmpty;
    this.#drawTabs();
    for (const listener of this.#listeners) listener();
    keepTabs(this.#tabs, this.#active, new Map([...this.#panes].map(([key, { spec }]) => [key, spec])));
  }

  #drawTabs(): void {
    const drawn = this.#tabs.map((tab, at) => this.#tab(tab, at));
    const hadFocus = this.#tabList.contains(document.activeElement);
    fill(this.#tabList, ...drawn);
    drawn[this.#active]?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    if (hadFocus) this.#tabList.querySelector<HTMLElement>('[aria-selected=true]')?.focus();
    const shown = this.focused && paneTitle(this.#console, this.focused.spec);
    setText(document.head.querySelector('title')!, shown ? `${shown} · outlive` : 'outlive');
  }

  #tab(tab: KeptTab, at: number): HTMLElement {
    const { spec } = this.#panes.get(tab.focus)!;
    const count = keys(tab.tree).length;
    const title = paneTitle(this.#console, spec);
    const isActive = at === this.#active;
    const onkeydown = (event: KeyboardEvent) => {
      if (event.key === 'ArrowRight' || event.key === 'ArrowLeft') {
        const count = this.#tabs.length;
        this.#active = (this.#active + (event.key === 'ArrowRight' ? 1 : -1) + count) % count;
        this.#draw();
      } else if (event.key === 'Delete') this.closeTab(at);
    };
    return element(
      'div',
      { class: `tab ${isActive ? 'active' : ''}`, role: 'none', onauxclick: (event: MouseEvent) => event.button === MIDDLE && this.closeTab(at) },
      element(
        'button',
        {
          role: 'tab',
          'aria-selected': String(isActive),
          tabindex: isActive ? 0 : -1,
          title,
          onclick: () => this.showTab(at),
          onkeydown,
          'data-testid': 'tab',
        },
        element('span', { class: `dot ${paneMood(this.#console, spec)}` }),
        element('span', { class: 'tab-title' }, title),
        count > 1 ? element('span', { class: 'count' }, String(count)) : null,
      ),
      // A list of tabs may have nothing but tabs: this one is for the mouse, Delete on the tab for the keyboard.
      element(
        'button',
        { class: 'quiet icon-only', tabindex: -1, 'aria-hidden': 'true', title: 'Close', onclick: () => this.closeTab(at) },
        icon('close'),
      ),
    );
  }
}
