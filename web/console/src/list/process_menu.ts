import type { ProcessInfo } from '@outlive/client';
import type { Console } from '../console.js';
import { confirm } from '../dialogs/confirm.js';
import { openShare } from '../dialogs/share.js';
import { commandLine, titleOf } from '../live/words.js';
import type { MenuItem } from '../page/menu.js';

/** What can be done with a process as it is now. With `key`, it stands in a pane already. */
export function processMenu(console: Console, id: string, key?: string): (MenuItem | null)[] {
  const process = console.processes.get(id);
  if (!process) return [];
  const { outlive, notices, processes, workspace } = console;
  const name = titleOf(process);
  const handle = outlive.process(id);
  const isRunning = process.status === 'running';
  const change = (call: () => Promise<ProcessInfo>) => notices.try(async () => processes.learn(await call()));

  const items: (MenuItem | null)[] = [];
  if (key === undefined) items.push({ label: 'Open', run: () => console.openProcess(id) });
  if (key === undefined && !workspace.isEmpty) items.push({ label: 'Open beside', run: () => console.openProcess(id, 'row') });
  if (process.tty) {
    if (isRunning) items.push({ label: 'Share read-only…', run: () => openShare(console, id) });
    items.push({ label: 'Play recording', run: () => workspace.open({ kind: 'recording', id }) });
  }
  items.push({ label: 'Copy command', run: () => void notices.try(() => console.copy(commandLine(process))) });
  items.push({ label: 'Copy id', run: () => void notices.try(() => console.copy(id)) }, null);
  if (process.status === 'created') items.push({ label: 'Start', run: () => void change(() => handle.start()) });
  if (isRunning) {
    items.push({ label: 'Interrupt (SIGINT)', run: () => void change(() => handle.signal('SIGINT')) });
    items.push({
      label: 'Stop…',
      run: () =>
        confirm(`Stop ${name}?`, 'It and all its children get TERM, and KILL if they are still there after the grace time.', 'Stop', () =>
          change(() => handle.stop()),
        ),
    });
    items.push({
      label: 'Kill…',
      isDangerous: true,
      run: () =>
        confirm(`Kill ${name}?`, 'It and all its children are killed at once. What they have not saved is lost.', 'Kill', () =>
          change(() => handle.kill()),
        ),
    });
    items.push({
      label: 'Restart…',
      run: () =>
        confirm(`Restart ${name}?`, 'It is stopped, and then started again with the same command. Its log goes on.', 'Restart', () =>
          change(() => handle.restart()),
        ),
    });
  } else if (process.status === 'exited') {
    items.push({ label: 'Start again', run: () => void change(() => handle.restart()) });
  }
  items.push({
    label: 'Delete…',
    isDangerous: true,
    run: () => {
      const what = isRunning ? 'It is killed, and its log and recording go with it.' : 'Its log and recording go with it.';
      confirm(`Delete ${name}?`, what, 'Delete', () =>
        notices.try(async () => {
          await handle.delete({ force: isRunning });
          processes.forget(id);
        }),
      );
    },
  });
  return items;
}
