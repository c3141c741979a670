import type { ProcessInfo } from '@outlive/client';
import type { Console } from '../console.js';
import { element, fill, setText } from '../page/element.js';
import { showAge } from '../state/clock.js';
import { displayCommand, processTitle, statusClass, statusLabel, statusSinceMs } from '../state/format.js';
import type { PaneFrame } from './frame.js';

/** Updates a pane's title bar when its process changes. Returns a function to stop. */
export function followProcess(
  console: Console,
  id: string,
  frame: PaneFrame,
  extraFacts: Node[],
  onChange: (process: ProcessInfo, previous: ProcessInfo | undefined) => void = () => {},
): () => void {
  const state = element('span', { class: 'fact state', 'data-testid': 'state' });
  const since = element('span', { class: 'fact' });
  const command = element('code', { class: 'fact command wide-only' });
  fill(frame.facts, state, since, command, ...extraFacts);
  let previous: ProcessInfo | undefined;
  const update = () => {
    const process = console.processes.get(id);
    if (!process || process === previous) return;
    const title = processTitle(process);
    frame.dot.className = `dot ${statusClass(process)}`;
    setText(frame.title, title);
    frame.element.setAttribute('aria-label', title);
    setText(state, statusLabel(process));
    state.className = `fact state ${statusClass(process)}`;
    const line = displayCommand(process);
    setText(command, line === title ? '' : line);
    command.title = line;
    showAge(since, statusSinceMs(process));
    onChange(process, previous);
    previous = process;
  };
  update();
  return console.processes.onChange(update);
}
