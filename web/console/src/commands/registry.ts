import type { Console } from '../console.js';
import { openHelp } from '../dialogs/help.js';
import { openShare } from '../dialogs/share.js';
import { openStart } from '../dialogs/start.js';
import type { Side } from '../layout/geometry.js';
import { toggleTheme } from '../styles/theme.js';
import { isScreenReaderMode, toggleScreenReaderMode } from '../terminal/screen_reader.js';
import type { Command } from './command.js';

/** All commands that do not belong to one process. */
export function createCommands(console: Console): Command[] {
  const { workspace } = console;
  const hasPane = () => !workspace.isEmpty;
  const focusedTerminal = () => {
    const focused = workspace.focused;
    return focused?.spec.kind === 'terminal' ? focused.spec.id : undefined;
  };
  const focusSide = (side: Side, key: string): Command => ({
    title: `Focus pane: ${side}`,
    keys: [key],
    isListed: false,
    run: () => workspace.focusSide(side),
  });
  return [
    { title: 'Find', keys: ['k', ' '], plainKey: 'Ctrl-k', run: () => console.openPalette() },
    { title: 'New terminal', keys: ['t'], plainKey: 't', run: () => void console.openShell() },
    { title: 'Start process', keys: ['c'], plainKey: 'n', run: () => openStart(console) },
    { title: 'New session', keys: ['e'], run: () => console.newSession() },
    { title: 'Split right', keys: ['|', '%'], isEnabled: hasPane, run: () => console.openPalette('row') },
    { title: 'Split down', keys: ['-', '"'], isEnabled: hasPane, run: () => console.openPalette('column') },
    { title: 'Close pane', keys: ['x', 'd'], isEnabled: hasPane, run: () => workspace.closePane() },
    { title: 'Next tab', keys: ['n'], isEnabled: hasPane, run: () => workspace.stepTab(1) },
    { title: 'Previous tab', keys: ['p'], isEnabled: hasPane, run: () => workspace.stepTab(-1) },
    focusSide('left', 'ArrowLeft'),
    focusSide('right', 'ArrowRight'),
    focusSide('up', 'ArrowUp'),
    focusSide('down', 'ArrowDown'),
    { title: 'Focus process list', keys: ['l'], run: () => console.showSidebar(true) },
    { title: 'Filter processes', keys: ['/'], plainKey: '/', run: () => console.focusFilter() },
    {
      title: 'Share read-only',
      keys: ['s'],
      isEnabled: () => focusedTerminal() !== undefined,
      run: () => openShare(console, focusedTerminal()!),
    },
    {
      title: 'Play recording',
      keys: ['r'],
      isEnabled: () => focusedTerminal() !== undefined,
      run: () => workspace.open({ kind: 'recording', id: focusedTerminal()! }),
    },
    {
      title: 'Copy selection',
      keys: ['w'],
      isEnabled: () => workspace.selection !== '',
      run: () => void console.notices.attempt(() => console.copy(workspace.selection)),
    },
    { title: 'Toggle light and dark', keys: ['y'], run: toggleTheme },
    { title: 'Toggle screen reader support', keys: ['a'], run: () => switchScreenReaderMode(console) },
    { title: 'Keyboard shortcuts', keys: ['?'], plainKey: '?', run: () => openHelp(console) },
    ...Array.from(
      { length: 9 },
      (_, index): Command => ({
        title: `Tab ${index + 1}`,
        keys: [String(index + 1)],
        isListed: false,
        run: () => workspace.showTab(index),
      }),
    ),
  ];
}

function switchScreenReaderMode({ notices }: Console): void {
  toggleScreenReaderMode();
  notices.show(`Screen reader support is ${isScreenReaderMode() ? 'on' : 'off'}.`);
}
