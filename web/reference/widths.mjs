// Character widths of xterm.js with its unicode11 addon. As a script, prints the ranges whose width is not 1 in the
// format of width_table.rs. run.mjs compares them with that table.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import unicode11 from '@xterm/addon-unicode11';

const TABLE = new URL('../../crates/core/src/screen/model/width_table.rs', import.meta.url);
/** The first character that the table covers. */
const FIRST_CODE = 0xa0;

export function rangesInXterm() {
  let provider;
  const unicode = { register: (registered) => (provider = registered), activeVersion: '11' };
  new unicode11.Unicode11Addon().activate({ unicode });
  const ranges = [];
  for (let code = FIRST_CODE; code <= 0x10ffff; code += 1) {
    const width = provider.wcwidth(code);
    const last = ranges.at(-1);
    if (last && last[2] === width) last[1] = code;
    else ranges.push([code, code, width]);
  }
  return ranges
    .filter(([, , width]) => width !== 1)
    .map(([first, last, width]) => `(0x${first.toString(16)}, 0x${last.toString(16)}, ${width})`);
}

/** The ranges in the server's table. */
export function rangesInServer() {
  return readFileSync(TABLE, 'utf8').match(/\(0x[0-9a-f]+, 0x[0-9a-f]+, [02]\)/g);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) console.log(rangesInXterm().join(',\n'));
