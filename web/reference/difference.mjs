// What differs between the reference and the subject, for people.

import { attributesAt, CELL, cellAt, textAt } from './state.mjs';

const LINES_SHOWN = 4;
const CELLS_SHOWN = 4;
const OTHERS_SHOWN = 12;

export function difference(reference, subject) {
  const expected = sections(reference);
  const got = sections(subject);
  const lines = [];
  let rows = 0;
  for (const [name, a] of expected) {
    const b = got.get(name);
    if (!b) {
      lines.push(`  ${name}: not there`);
    } else if (a.length !== b.length || !reference.sameFrom(a.at, subject, b.at, a.length)) {
      if (a.kind !== 'line') lines.push(`  ${name}: expected ${plain(reference, a)}, got ${plain(subject, b)}`);
      else if ((rows += 1) <= LINES_SHOWN) lines.push(...line(name, reference, a, subject, b));
    }
  }
  for (const name of got.keys()) if (!expected.has(name)) lines.push(`  ${name}: should not be there`);
  if (rows > LINES_SHOWN) lines.push(`  … ${rows} lines differ in all`);
  const limit = OTHERS_SHOWN + LINES_SHOWN * (CELLS_SHOWN + 3);
  return lines.slice(0, limit).join('\n');
}

function sections(state) {
  const all = new Map();
  state.sections.forEach((section, i) => {
    const end = i + 1 < state.sections.length ? state.sections[i + 1].at : state.length;
    all.set(section.name, { ...section, length: end - section.at });
  });
  return all;
}

function plain(state, { kind, at, length }) {
  const numbers = state.numbers.subarray(at, at + length);
  switch (kind) {
    case 'text':
      return quoted(textAt(numbers[0]));
    case 'attributes':
      return attributesAt(...numbers);
    case 'stops':
      return `[${[...numbers.keys()].filter((i) => numbers[i])}]`;
    default:
      return numbers.join(' ');
  }
}

function line(name, reference, a, subject, b) {
  const out = [`  ${name}:`];
  const [before, after] = [reference.numbers[a.at], subject.numbers[b.at]];
  if (before !== after) out.push(`    goes on from the line above: expected ${before}, got ${after}`);
  if (a.length !== b.length) return [...out, `    expected ${a.cols} columns, got ${b.cols}`];
  out.push(`    expected ${shown(reference, a)}`, `    got      ${shown(subject, b)}`);
  let cells = 0;
  for (let col = 0; col < a.cols; col += 1) {
    const [at, otherAt] = [a.at + 1 + col * CELL, b.at + 1 + col * CELL];
    if (reference.sameFrom(at, subject, otherAt, CELL)) continue;
    if ((cells += 1) > CELLS_SHOWN) continue;
    out.push(`    column ${col}: expected ${cell(reference, at)}; got ${cell(subject, otherAt)}`);
  }
  if (cells > CELLS_SHOWN) out.push(`    … ${cells} cells differ in this line`);
  return out;
}

function shown(state, { at, cols }) {
  let text = '';
  for (let col = 0; col < cols; col += 1) {
    const { text: own, width } = cellAt(state.numbers, at + 1 + col * CELL);
    text += own || (width === 0 ? '' : ' ');
  }
  return quoted(text.trimEnd());
}

function cell(state, at) {
  const { text, width, attributes } = cellAt(state.numbers, at);
  return `${quoted(text)} width ${width} ${attributes}`;
}

/** Also what cannot be seen. */
function quoted(text) {
  const escape = (c) => `\\u{${c.codePointAt(0).toString(16)}}`;
  return JSON.stringify(text).replace(/[\p{C}\p{M}\p{Zl}\p{Zp}]/gu, escape);
}
