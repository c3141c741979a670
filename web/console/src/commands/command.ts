/** An action for the keyboard and the palette. */
export interface Command {
  title: string;
  /** Keys that run it after the prefix. */
  keys: string[];
  /** Key that runs it alone, outside of terminals and input fields. */
  plainKey?: string;
  run(): void;
  /** Absent: always enabled. */
  isEnabled?(): boolean;
  /** Whether the palette, the help and the prefix hint list it; default: yes. */
  isListed?: boolean;
}

/** The label of the prefix key, which is the same as in `outlive attach`. */
export const PREFIX = 'Ctrl-\\';

const KEY_LABELS: Record<string, string> = {
  ArrowLeft: '←',
  ArrowRight: '→',
  ArrowUp: '↑',
  ArrowDown: '↓',
  ' ': 'Space',
  'Ctrl-k': 'Ctrl-K',
};

export function keyLabel(key: string): string {
  return KEY_LABELS[key] ?? key;
}

/** The first shortcut of a command with the prefix. */
export function shortcut(command: Command): string | undefined {
  const [key] = command.keys;
  return key === undefined ? undefined : `${PREFIX} ${keyLabel(key)}`;
}
