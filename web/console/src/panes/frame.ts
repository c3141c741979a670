import type { Console } from '../console.js';
import { element, type Attributes } from '../page/element.js';
import { icon, type IconName } from '../page/icons.js';
import { processTitle, statusClass } from '../state/format.js';
import type { PaneSpec } from './pane.js';

/** The parts of a pane that all kinds share. */
export interface PaneFrame {
  element: HTMLElement;
  dot: HTMLElement;
  title: HTMLElement;
  /** Details beside the title. */
  facts: HTMLElement;
  /** Buttons of this kind of pane, before the buttons that all panes have. */
  actions: HTMLElement;
  body: HTMLElement;
}

/** Creates a pane's title bar and its empty body. */
export function createFrame(console: Console, spec: PaneSpec, key: string): PaneFrame {
  const dot = element('span', { class: 'dot' });
  const title = element('span', { class: 'pane-title' }, paneTitle(console, spec));
  const facts = element('span', { class: 'facts' });
  const actions = element('span', { class: 'actions' });
  const body = element('div', { class: 'pane-body' });
  const split = (direction: 'row' | 'column') => {
    console.workspace.focusPane(key);
    console.openPalette(direction);
  };
  const bar = element(
    'header',
    { class: 'pane-bar' },
    dot,
    title,
    facts,
    actions,
    iconButton('splitRight', 'Split right', () => split('row'), { class: 'quiet icon-only wide-only' }),
    iconButton('splitDown', 'Split down', () => split('column'), { class: 'quiet icon-only wide-only' }),
    iconButton('close', 'Close pane', () => console.workspace.closePane(key)),
  );
  const section = element(
    'section',
    {
      class: `pane ${spec.kind}-pane`,
      'aria-label': paneTitle(console, spec),
      'data-testid': `${spec.kind}-pane`,
      'data-id': spec.id,
    },
    bar,
    body,
  );
  return { element: section, dot, title, facts, actions, body };
}

export function paneTitle(console: Console, spec: PaneSpec): string {
  if (spec.kind === 'session') return `session ${spec.id}`;
  const process = console.processes.get(spec.id);
  const title = process ? processTitle(process) : spec.id;
  return spec.kind === 'recording' ? `recording of ${title}` : title;
}

/** CSS class of the dot beside a pane's title. */
export function paneStatus(console: Console, spec: PaneSpec): string {
  if (spec.kind === 'session') return 'session';
  if (spec.kind === 'recording') return 'recording';
  const process = console.processes.get(spec.id);
  return process ? statusClass(process) : 'finished';
}

export function iconButton(
  name: IconName,
  label: string,
  onclick: (event: MouseEvent) => void,
  attributes: Attributes = {},
): HTMLButtonElement {
  return element(
    'button',
    { type: 'button', class: 'quiet icon-only', 'aria-label': label, title: label, onclick, ...attributes },
    icon(name),
  );
}
