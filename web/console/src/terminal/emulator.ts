import { Unicode11Addon } from '@xterm/addon-unicode11';
import { type ITerminalOptions, Terminal } from '@xterm/xterm';
import { terminalColours } from '../look/terminal_colours.js';
import { currentTheme, onThemeChange } from '../look/theme.js';
import { isReadOut, onReadOutChange } from './screen_reader.js';

const FONT = 'ui-monospace, "SF Mono", "Cascadia Mono", "JetBrains Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';
/** What was scrolled away stays reachable in the page; the log on the server has more. */
const SCROLLBACK_LINES = 5000;

/** As many times a character is repeated at most, as on the server. */
const MOST_REPEATED = 10_000;

/** An xterm.js in our colours, which it changes with the page. */
export function emulator(options: ITerminalOptions = {}): Terminal {
  const terminal = new Terminal({
    fontFamily: FONT,
    fontSize: matchMedia('(max-width: 700px)').matches ? 12 : 13,
    lineHeight: 1.15,
    cursorBlink: false,
    scrollback: SCROLLBACK_LINES,
    theme: terminalColours(currentTheme()),
    // Programs choose colours for the background that they guess.
    minimumContrastRatio: 3,
    // The widths of Unicode 11 are "proposed" by xterm.js, as is loading them.
    allowProposedApi: true,
    screenReaderMode: isReadOut(),
    ...options,
  });
  // Somebody's `CSI 2147483647 b` would hold the page until its memory is full.
  terminal.parser.registerCsiHandler({ final: 'b' }, ([count]) => Number(count) > MOST_REPEATED);
  terminal.loadAddon(new Unicode11Addon());
  terminal.unicode.activeVersion = '11';
  const unfollow = onThemeChange(() => (terminal.options.theme = terminalColours(currentTheme())));
  const unlisten = onReadOutChange(() => (terminal.options.screenReaderMode = isReadOut()));
  const { dispose } = terminal;
  terminal.dispose = () => {
    unfollow();
    unlisten();
    dispose.call(terminal);
  };
  return terminal;
}
