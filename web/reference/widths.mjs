// How wide characters are, as xterm.js with its unicode11 addon has it: prints the ranges of those that do not take one cell, as the
// list in Rust has them. `ranges()` is what run.mjs compares that list with.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import unicode11 from '@xterm/addon-unicode11';

const TABLE = new URL('../../crates/core/src/screen/model/width_table.rs', import.meta.url);
/** Below it nothing is printed. */
const FIRST = 0xa0;

export function ranges() {
  let provider;
  new unicode11.Unicode11Addon().activate({ unicode: { register: (given) => (provider = given), activeVersion: '11' } });
  const found = [];
  for (let code = FIRST; code <= 0x10ffff; code += 1) {
    const width = provider.wcwidth(code);
    const last = found.at(-1);
    if (last && last[2] === width) last[1] = code;
    else found.push([code, code, width]);
  }
  return found.filter(([, , width]) => width !== 1).map(([first, last, width]) => `(0x${first.toString(16)}, 0x${last.toString(16)}, ${width})`);
}

/** The list that the server is built with. */
export function listed() {
  return readFileSync(TABLE, 'utf8').match(/\(0x[0-9a-f]+, 0x[0-9a-f]+, [02]\)/g);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) console.log(ranges().join(',\n'));
