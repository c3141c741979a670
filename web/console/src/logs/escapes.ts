/** Colours that programs print on pipes anyway, as classes; every other control sequence is left out. */

export interface Piece {
  text: string;
  /** Such as `bold` and `fg-1`. */
  classes: string[];
}

export interface Style {
  colour: number | undefined;
  isBold: boolean;
  isDim: boolean;
}

export const PLAIN: Style = { colour: undefined, isBold: false, isDim: false };

// CSI, OSC (to BEL or ST) and DCS and the like, and two-letter sequences; then single control letters except the tab.
const SEQUENCE =
  /\x1b\[([0-?]*)[ -/]*([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[PX^_][^\x1b]*(?:\x1b\\)?|\x1b[ -/]*[0-~]?|[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;

/** A line as pieces, and the style that the next line begins with. */
export function pieces(line: string, style: Style): { pieces: Piece[]; style: Style } {
  const found: Piece[] = [];
  let now = style;
  let from = 0;
  const add = (text: string) => {
    if (text !== '') found.push({ text, classes: classes(now) });
  };
  for (const match of line.matchAll(SEQUENCE)) {
    add(line.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[2] === 'm') now = restyled(now, match[1] ?? '');
  }
  add(line.slice(from));
  return { pieces: found, style: now };
}

function restyled(style: Style, parameters: string): Style {
  const codes = parameters.split(/[;:]/).map(Number);
  let now = { ...style };
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at]!;
    if (code === 0) now = { ...PLAIN };
    else if (code === 1) now.isBold = true;
    else if (code === 2) now.isDim = true;
    else if (code === 22) [now.isBold, now.isDim] = [false, false];
    else if (code >= 30 && code <= 37) now.colour = code - 30;
    else if (code >= 90 && code <= 97) now.colour = code - 90 + 8;
    else if (code === 39) now.colour = undefined;
    else if (code === 38 || code === 48) {
      // 38;5;N and 38;2;R;G;B: of the large palettes only the first sixteen are ours.
      const isIndexed = codes[at + 1] === 5;
      const index = codes[at + 2] ?? 0;
      if (code === 38) now.colour = isIndexed && index < 16 ? index : undefined;
      at += isIndexed ? 2 : 4;
    }
  }
  return now;
}

function classes({ colour, isBold, isDim }: Style): string[] {
  return [...(colour === undefined ? [] : [`fg-${colour}`]), ...(isBold ? ['bold'] : []), ...(isDim ? ['dim'] : [])];
}
