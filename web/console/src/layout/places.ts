import type { Direction, Tree } from './tree.js';

/** In parts of the whole. */
export interface Place {
  left: number;
  top: number;
  width: number;
  height: number;
}

export interface Divider extends Place {
  direction: Direction;
  path: number[];
  at: number;
  /** How long the split is that it divides, as a part of the whole: what a pointer moves is turned into a share by it. */
  length: number;
  /** The share of what is before it, among the two. */
  share: number;
}

const WHOLE: Place = { left: 0, top: 0, width: 1, height: 1 };

/** Where every pane and every divider is. */
export function places(tree: Tree, place: Place = WHOLE, path: number[] = []): { panes: Map<string, Place>; dividers: Divider[] } {
  if (tree.type === 'leaf') return { panes: new Map([[tree.key, place]]), dividers: [] };
  const panes = new Map<string, Place>();
  const dividers: Divider[] = [];
  const isRow = tree.direction === 'row';
  let begin = isRow ? place.left : place.top;
  tree.children.forEach((child, at) => {
    const share = tree.shares[at]!;
    const length = (isRow ? place.width : place.height) * share;
    const inner = isRow ? { ...place, left: begin, width: length } : { ...place, top: begin, height: length };
    const found = places(child, inner, [...path, at]);
    for (const [key, where] of found.panes) panes.set(key, where);
    dividers.push(...found.dividers);
    begin += length;
    if (at + 1 === tree.children.length) return;
    const line = isRow ? { ...place, left: begin, width: 0 } : { ...place, top: begin, height: 0 };
    const next = tree.shares[at + 1]!;
    dividers.push({
      ...line,
      direction: tree.direction,
      path,
      at,
      length: isRow ? place.width : place.height,
      share: share / (share + next),
    });
  });
  return { panes, dividers };
}

export type Side = 'left' | 'right' | 'up' | 'down';

/** The pane that one meets when one leaves `key` to that side. */
export function neighbour(tree: Tree, key: string, side: Side): string | undefined {
  const { panes } = places(tree);
  const from = panes.get(key);
  if (!from) return undefined;
  const isAcross = side === 'left' || side === 'right';
  let best: { key: string; distance: number; overlap: number } | undefined;
  for (const [other, place] of panes) {
    if (other === key) continue;
    const overlap = isAcross
      ? shared(from.top, from.height, place.top, place.height)
      : shared(from.left, from.width, place.left, place.width);
    const distance = {
      left: from.left - (place.left + place.width),
      right: place.left - (from.left + from.width),
      up: from.top - (place.top + place.height),
      down: place.top - (from.top + from.height),
    }[side];
    if (overlap <= 1e-9 || distance < -1e-9) continue;
    const isBetter = !best || distance < best.distance - 1e-9 || (Math.abs(distance - best.distance) <= 1e-9 && overlap > best.overlap);
    if (isBetter) best = { key: other, distance, overlap };
  }
  return best?.key;
}

function shared(begin: number, length: number, otherBegin: number, otherLength: number): number {
  return Math.min(begin + length, otherBegin + otherLength) - Math.max(begin, otherBegin);
}
