import type { Console } from '../console.js';
import { openHelp } from '../dialogs/help.js';
import { openShare } from '../dialogs/share.js';
import { openStart } from '../dialogs/start.js';
import { toggleTheme } from '../look/theme.js';
import type { Side } from '../layout/places.js';
import { isReadOut, toggleReadOut } from '../terminal/screen_reader.js';
import type { Command } from './command.js';

function switchReadOut({ notices }: Console): void {
  toggleReadOut();
  notices.say(isReadOut() ? 'Terminals are read out.' : 'Terminals are not read out.');
}

/** Everything the console can do that is not about one process. */
export function allCommands(console: Console): Command[] {
  const { workspace } = console;
  const hasPane = () => !workspace.isEmpty;
  const focusedTerminal = () => {
    const focused = workspace.focused;
    return focused?.spec.kind === 'terminal' ? focused.spec.id : undefined;
  };
  const side = (to: Side, key: string): Command => ({
    title: `Pane ${to}`,
    keys: [key],
    isListed: false,
    run: () => workspace.focusSide(to),
  });
  return [
    { title: 'Find anything', keys: ['k', ' '], plainKey: 'Ctrl-k', run: () => console.find() },
    { title: 'New terminal', keys: ['t'], plainKey: 't', run: () => void console.openShell() },
    { title: 'Start a process', keys: ['c'], plainKey: 'n', run: () => openStart(console) },
    { title: 'New session', keys: ['e'], run: () => console.newSession() },
    { title: 'Split right', keys: ['|', '%'], isPossible: hasPane, run: () => console.chooseBeside('row') },
    { title: 'Split down', keys: ['-', '"'], isPossible: hasPane, run: () => console.chooseBeside('column') },
    { title: 'Close pane', keys: ['x', 'd'], isPossible: hasPane, run: () => workspace.closePane() },
    { title: 'Next tab', keys: ['n'], isPossible: hasPane, run: () => workspace.stepTab(1) },
    { title: 'Previous tab', keys: ['p'], isPossible: hasPane, run: () => workspace.stepTab(-1) },
    side('left', 'ArrowLeft'),
    side('right', 'ArrowRight'),
    side('up', 'ArrowUp'),
    side('down', 'ArrowDown'),
    { title: 'List of processes', keys: ['l'], run: () => console.showList(true) },
    { title: 'Filter the list', keys: ['/'], plainKey: '/', run: () => console.filterList() },
    {
      title: 'Share read-only',
      keys: ['s'],
      isPossible: () => focusedTerminal() !== undefined,
      run: () => openShare(console, focusedTerminal()!),
    },
    {
      title: 'Play recording',
      keys: ['r'],
      isPossible: () => focusedTerminal() !== undefined,
      run: () => workspace.open({ kind: 'recording', id: focusedTerminal()! }),
    },
    {
      title: 'Copy what is marked',
      keys: ['w'],
      isPossible: () => workspace.selection !== '',
      run: () => void console.notices.try(() => console.copy(workspace.selection)),
    },
    { title: 'Light or dark', keys: ['y'], run: toggleTheme },
    { title: 'Terminals for screen readers, on or off', keys: ['a'], run: () => switchReadOut(console) },
    { title: 'Help', keys: ['?'], plainKey: '?', run: () => openHelp(console) },
    ...Array.from(
      { length: 9 },
      (_, at): Command => ({ title: `Tab ${at + 1}`, keys: [String(at + 1)], isListed: false, run: () => workspace.showTab(at) }),
    ),
  ];
}
