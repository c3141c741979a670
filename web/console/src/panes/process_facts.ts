import type { ProcessInfo } from '@outlive/client';
import type { Console } from '../console.js';
import { showAge } from '../live/clock.js';
import { shownLine, moodOf, sinceMs, stateOf, titleOf } from '../live/words.js';
import { element, fill, setText } from '../page/element.js';
import type { Frame } from './frame.js';

/** Keeps the line above a pane true to its process. Answers how to stop. */
export function followProcess(
  console: Console,
  id: string,
  parts: Frame,
  further: Node[],
  changed: (process: ProcessInfo, before: ProcessInfo | undefined) => void = () => {},
): () => void {
  const state = element('span', { class: 'fact state', 'data-testid': 'state' });
  const since = element('span', { class: 'fact' });
  const command = element('code', { class: 'fact command wide-only' });
  fill(parts.facts, state, since, command, ...further);
  let before: ProcessInfo | undefined;
  const show = () => {
    const process = console.processes.get(id);
    if (!process || process === before) return;
    parts.dot.className = `dot ${moodOf(process)}`;
    setText(parts.title, titleOf(process));
    parts.element.setAttribute('aria-label', titleOf(process));
    setText(state, stateOf(process));
    state.className = `fact state ${moodOf(process)}`;
    const line = shownLine(process);
    setText(command, line === titleOf(process) ? '' : line);
    command.title = line;
    showAge(since, sinceMs(process));
    changed(process, before);
    before = process;
  };
  show();
  return console.processes.onChange(show);
}
