/** Something that can be done from the keyboard, the palette or a menu. */
export interface Command {
  title: string;
  /** After the prefix. */
  keys: string[];
  /** Alone, where nothing is typed into. */
  plainKey?: string;
  run(): void;
  /** Absent: always. */
  isPossible?(): boolean;
  /** In the palette, the help and the hint; default: yes. */
  isListed?: boolean;
}

/** How the prefix is written; the same as that of `outlive attach`. */
export const PREFIX = 'Ctrl-\\';

const NAMES: Record<string, string> = { ArrowLeft: '←', ArrowRight: '→', ArrowUp: '↑', ArrowDown: '↓', ' ': 'Space', 'Ctrl-k': 'Ctrl-K' };

export function keyName(key: string): string {
  return NAMES[key] ?? key;
}

export function shortcut(command: Command): string | undefined {
  const [key] = command.keys;
  return key === undefined ? undefined : `${PREFIX} ${keyName(key)}`;
}
