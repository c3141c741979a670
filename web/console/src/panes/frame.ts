import type { Console } from '../console.js';
import { element, type Attributes } from '../page/element.js';
import { icon, type IconName } from '../page/icons.js';
import { paneTitle } from './title.js';
import type { PaneSpec } from './pane.js';

export interface Frame {
  element: HTMLElement;
  dot: HTMLElement;
  title: HTMLElement;
  /** What is to be known beside the title. */
  facts: HTMLElement;
  /** What can be done, before what can be done to any pane. */
  actions: HTMLElement;
  body: HTMLElement;
}

/** The line above a pane, and the place below it. */
export function frame(console: Console, spec: PaneSpec, key: string): Frame {
  const dot = element('span', { class: 'dot' });
  const title = element('span', { class: 'pane-title' }, paneTitle(console, spec));
  const facts = element('span', { class: 'facts' });
  const actions = element('span', { class: 'actions' });
  const body = element('div', { class: 'pane-body' });
  const divide = (direction: 'row' | 'column') => {
    console.workspace.focusPane(key);
    console.chooseBeside(direction);
  };
  const bar = element(
    'header',
    { class: 'pane-bar' },
    dot,
    title,
    facts,
    actions,
    iconButton('splitRight', 'Split right', () => divide('row'), { class: 'quiet icon-only wide-only' }),
    iconButton('splitDown', 'Split down', () => divide('column'), { class: 'quiet icon-only wide-only' }),
    iconButton('close', 'Close pane', () => console.workspace.closePane(key)),
  );
  const section = element(
    'section',
    { class: `pane ${spec.kind}-pane`, 'aria-label': paneTitle(console, spec), 'data-testid': `${spec.kind}-pane`, 'data-id': spec.id },
    bar,
    body,
  );
  return { element: section, dot, title, facts, actions, body };
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
