// Describes the difference between two terminal states.

import { attributesAt, CELL, cellAt, textAt } from './state.mjs';

const MAX_LINES_SHOWN = 4;
const MAX_CELLS_SHOWN = 4;
const MAX_OTHERS_SHOWN = 12;

export function difference(reference, subject) {
  const expected = sections(reference);
  const got = sections(subject);
  const lines = [];
  let rows = 0;
  for (const [name, a] of expected) {
    const b = got.get(name);
    if (!b) {
      lines.push(`  ${name}: missing`);
    } else if (a.length !== b.length || !reference.sameFrom(a.at, subject, b.at, a.length)) {
      if (a.kind !== 'line')
        lines.push(`  ${name}: expected ${formatSection(reference, a)}, got ${formatSection(subject, b)}`);
      else if ((rows += 1) <= MAX_LINES_SHOWN) lines.push(...describeLine(name, reference, a, subject, b));
    }
  }
  for (const name of got.keys()) if (!expected.has(name)) lines.push(`  ${name}: unexpected`);
  if (rows > MAX_LINES_SHOWN) lines.push(`  … ${rows} lines differ in total`);
  const limit = MAX_OTHERS_SHOWN + MAX_LINES_SHOWN * (MAX_CELLS_SHOWN + 3);
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

function formatSection(state, { kind, at, length }) {
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

function describeLine(name, reference, a, subject, b) {
  const out = [`  ${name}:`];
  const [before, after] = [reference.numbers[a.at], subject.numbers[b.at]];
  if (before !== after) out.push(`    continues the line above: expected ${before}, got ${after}`);
  if (a.length !== b.length) return [...out, `    expected ${a.cols} columns, got ${b.cols}`];
  out.push(`    expected ${lineText(reference, a)}`, `    got      ${lineText(subject, b)}`);
  let cells = 0;
  for (let col = 0; col < a.cols; col += 1) {
    const [at, otherAt] = [a.at + 1 + col * CELL, b.at + 1 + col * CELL];
    if (reference.sameFrom(at, subject, otherAt, CELL)) continue;
    if ((cells += 1) > MAX_CELLS_SHOWN) continue;
    out.push(`    column ${col}: expected ${formatCell(reference, at)}; got ${formatCell(subject, otherAt)}`);
  }
  if (cells > MAX_CELLS_SHOWN) out.push(`    … ${cells} cells differ in this line`);
  return out;
}

function lineText(state, { at, cols }) {
  let text = '';
  for (let col = 0; col < cols; col += 1) {
    const { text: own, width } = cellAt(state.numbers, at + 1 + col * CELL);
    text += own || (width === 0 ? '' : ' ');
  }
  return quoted(text.trimEnd());
}

function formatCell(state, at) {
  const { text, width, attributes } = cellAt(state.numbers, at);
  return `${quoted(text)} width ${width} ${attributes}`;
}

/** Quotes a text with escapes for invisible and combining characters. */
function quoted(text) {
  const escape = (c) => `\\u{${c.codePointAt(0).toString(16)}}`;
  return JSON.stringify(text).replace(/[\p{C}\p{M}\p{Zl}\p{Zp}]/gu, escape);
}
