// Control letters, and those that turn or hide the text around them.
const UNSEEN = /[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Names and commands are chosen by others: in one line, and nothing in it pretends to be something else. */
export function visible(text: string): string {
  return text.replace(UNSEEN, (letter) => {
    const code = letter.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : '\u{fffd}';
  });
}
