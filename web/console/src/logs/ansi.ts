/** Turns ANSI colours in log output into CSS classes and removes all other control sequences. */

export interface StyledText {
  text: string;
  /** CSS classes such as `bold` and `fg-1`. */
  classes: string[];
}

export interface Style {
  colour: number | undefined;
  isBold: boolean;
  isDim: boolean;
}

export const PLAIN: Style = { colour: undefined, isBold: false, isDim: false };

// CSI, OSC (to BEL or ST), DCS, SOS, PM and APC strings, two-character sequences, and control characters except tab.
const SEQUENCE =
  /\x1b\[([0-?]*)[ -/]*([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[PX^_][^\x1b]*(?:\x1b\\)?|\x1b[ -/]*[0-~]?|[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;

/** Parses a line that starts with `style`. Returns its parts and the style that the next line starts with. */
export function parseAnsi(line: string, style: Style): { parts: StyledText[]; style: Style } {
  const parts: StyledText[] = [];
  let current = style;
  let from = 0;
  const add = (text: string) => {
    if (text !== '') parts.push({ text, classes: styleClasses(current) });
  };
  for (const match of line.matchAll(SEQUENCE)) {
    add(line.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[2] === 'm') current = applySgr(current, match[1] ?? '');
  }
  add(line.slice(from));
  return { parts, style: current };
}

/** Applies the parameters of an SGR sequence (`CSI … m`). */
function applySgr(style: Style, parameters: string): Style {
  const codes = parameters.split(/[;:]/).map(Number);
  let result = { ...style };
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at]!;
    if (code === 0) result = { ...PLAIN };
    else if (code === 1) result.isBold = true;
    else if (code === 2) result.isDim = true;
    else if (code === 22) [result.isBold, result.isDim] = [false, false];
    else if (code >= 30 && code <= 37) result.colour = code - 30;
    else if (code >= 90 && code <= 97) result.colour = code - 90 + 8;
    else if (code === 39) result.colour = undefined;
    else if (code === 38 || code === 48) {
      // 38;5;N and 38;2;R;G;B: only the first 16 palette colours have a class.
      const isIndexed = codes[at + 1] === 5;
      const index = codes[at + 2] ?? 0;
      if (code === 38) result.colour = isIndexed && index < 16 ? index : undefined;
      at += isIndexed ? 2 : 4;
    }
  }
  return result;
}

function styleClasses({ colour, isBold, isDim }: Style): string[] {
  return [...(colour === undefined ? [] : [`fg-${colour}`]), ...(isBold ? ['bold'] : []), ...(isDim ? ['dim'] : [])];
}
