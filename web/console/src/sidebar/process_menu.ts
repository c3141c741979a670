import type { ProcessInfo } from '@outlive/client';
import type { Console } from '../console.js';
import { confirm } from '../dialogs/confirm.js';
import { openShare } from '../dialogs/share.js';
import type { MenuItem } from '../page/menu.js';
import { commandLine, processTitle } from '../state/format.js';

/** The actions for a process in its current status. `key`: the menu belongs to an open pane. */
export function processMenu(console: Console, id: string, key?: string): (MenuItem | null)[] {
  const process = console.processes.get(id);
  if (!process) return [];
  const { outlive, notices, processes, workspace } = console;
  const name = processTitle(process);
  const handle = outlive.process(id);
  const isRunning = process.status === 'running';
  const change = (call: () => Promise<ProcessInfo>) => notices.attempt(async () => processes.update(await call()));

  const items: (MenuItem | null)[] = [];
  if (key === undefined) items.push({ label: 'Open', run: () => console.openProcess(id) });
  if (key === undefined && !workspace.isEmpty)
    items.push({ label: 'Open in new pane', run: () => console.openProcess(id, 'row') });
  const isStored = process.bootId !== undefined;
  if (process.tty && !isStored) {
    if (isRunning) items.push({ label: 'Share read-only…', run: () => openShare(console, id) });
    items.push({ label: 'Play recording', run: () => workspace.open({ kind: 'recording', id }) });
  }
  items.push({ label: 'Copy command', run: () => void notices.attempt(() => console.copy(commandLine(process))) });
  items.push({ label: 'Copy id', run: () => void notices.attempt(() => console.copy(id)) }, null);
  if (process.status === 'created') items.push({ label: 'Start', run: () => void change(() => handle.start()) });
  if (isRunning) {
    items.push({ label: 'Interrupt (SIGINT)', run: () => void change(() => handle.signal('SIGINT')) });
    items.push({
      label: 'Stop…',
      run: () =>
        confirm(
          `Stop ${name}?`,
          'Sends TERM to the process and all its children, and KILL to those that are left after the grace period.',
          'Stop',
          () => change(() => handle.stop()),
        ),
    });
    items.push({
      label: 'Kill…',
      isDangerous: true,
      run: () =>
        confirm(
          `Kill ${name}?`,
          'Kills the process and all its children immediately. Unsaved data is lost.',
          'Kill',
          () => change(() => handle.kill()),
        ),
    });
    items.push({
      label: 'Restart…',
      run: () =>
        confirm(
          `Restart ${name}?`,
          'Stops the process and starts the same command again. Its log continues.',
          'Restart',
          () => change(() => handle.restart()),
        ),
    });
  } else if (process.status === 'exited' && !isStored) {
    items.push({ label: 'Start again', run: () => void change(() => handle.restart()) });
  }
  items.push({
    label: 'Delete…',
    isDangerous: true,
    run: () => {
      const explanation = `${isRunning ? 'Kills the process and deletes' : 'Deletes'} its log and recording.`;
      confirm(`Delete ${name}?`, explanation, 'Delete', () =>
        notices.attempt(async () => {
          await handle.delete({ force: isRunning });
          processes.remove(id);
        }),
      );
    },
  });
  return items;
}
