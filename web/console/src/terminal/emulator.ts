import { Unicode11Addon } from '@xterm/addon-unicode11';
import { type ITerminalOptions, Terminal } from '@xterm/xterm';
import { terminalColours } from '../styles/terminal_colours.js';
import { currentTheme, onThemeChange } from '../styles/theme.js';
import { isScreenReaderMode, onScreenReaderModeChange } from './screen_reader.js';

const FONT =
  'ui-monospace, "SF Mono", "Cascadia Mono", "JetBrains Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';
/** Lines kept in the page; the log on the server has more. */
const SCROLLBACK_LINES = 5000;

/** Limit of repetitions in `CSI n b` (REP), the same as on the server. */
const MAX_REPEATS = 10_000;

/** Creates an xterm.js terminal that follows the theme of the page. */
export function createEmulator(options: ITerminalOptions = {}): Terminal {
  const terminal = new Terminal({
    fontFamily: FONT,
    fontSize: matchMedia('(max-width: 700px)').matches ? 12 : 13,
    lineHeight: 1.15,
    cursorBlink: false,
    scrollback: SCROLLBACK_LINES,
    theme: terminalColours(currentTheme()),
    // Programs guess the background when they choose colours; xterm.js corrects unreadable ones.
    minimumContrastRatio: 3,
    // Unicode 11 widths are a "proposed" API of xterm.js.
    allowProposedApi: true,
    screenReaderMode: isScreenReaderMode(),
    ...options,
  });
  // A program could freeze the page and exhaust its memory with `CSI 2147483647 b`.
  terminal.parser.registerCsiHandler({ final: 'b' }, ([count]) => Number(count) > MAX_REPEATS);
  terminal.loadAddon(new Unicode11Addon());
  terminal.unicode.activeVersion = '11';
  const unsubscribeTheme = onThemeChange(() => (terminal.options.theme = terminalColours(currentTheme())));
  const unsubscribeScreenReader = onScreenReaderModeChange(
    () => (terminal.options.screenReaderMode = isScreenReaderMode()),
  );
  const { dispose } = terminal;
  terminal.dispose = () => {
    unsubscribeTheme();
    unsubscribeScreenReader();
    dispose.call(terminal);
  };
  return terminal;
}
