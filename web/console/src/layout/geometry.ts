/** Computes rectangles of panes and dividers from a tree. All lengths are fractions of the workspace. */

import type { Direction, Tree } from './tree.js';

export interface Rect {
  left: number;
  top: number;
  width: number;
  height: number;
}

export interface Divider extends Rect {
  direction: Direction;
  /** Path to the split that it belongs to, and the index of the child before it. */
  path: number[];
  index: number;
  /** Length of that split along its direction; converts a pointer movement into a share. */
  length: number;
  /** Share of the child before it in the two children that it separates. */
  share: number;
}

export type Side = 'left' | 'right' | 'up' | 'down';

const WHOLE: Rect = { left: 0, top: 0, width: 1, height: 1 };
const EPSILON = 1e-9;

export function computeLayout(
  tree: Tree,
  rect: Rect = WHOLE,
  path: number[] = [],
): { panes: Map<string, Rect>; dividers: Divider[] } {
  if (tree.type === 'leaf') return { panes: new Map([[tree.key, rect]]), dividers: [] };
  const panes = new Map<string, Rect>();
  const dividers: Divider[] = [];
  const isRow = tree.direction === 'row';
  const splitLength = isRow ? rect.width : rect.height;
  let start = isRow ? rect.left : rect.top;
  tree.children.forEach((child, index) => {
    const share = tree.shares[index]!;
    const length = splitLength * share;
    const childRect = isRow ? { ...rect, left: start, width: length } : { ...rect, top: start, height: length };
    const inner = computeLayout(child, childRect, [...path, index]);
    for (const [key, paneRect] of inner.panes) panes.set(key, paneRect);
    dividers.push(...inner.dividers);
    start += length;
    if (index + 1 === tree.children.length) return;
    const line = isRow ? { ...rect, left: start, width: 0 } : { ...rect, top: start, height: 0 };
    const next = tree.shares[index + 1]!;
    const { direction } = tree;
    dividers.push({ ...line, direction, path, index, length: splitLength, share: share / (share + next) });
  });
  return { panes, dividers };
}

/** The nearest pane on that side of `key`; among equally near ones the one with the longest shared edge. */
export function neighbour(tree: Tree, key: string, side: Side): string | undefined {
  const { panes } = computeLayout(tree);
  const from = panes.get(key);
  if (!from) return undefined;
  const isHorizontal = side === 'left' || side === 'right';
  let best: { key: string; distance: number; overlap: number } | undefined;
  for (const [otherKey, other] of panes) {
    if (otherKey === key) continue;
    const overlap = isHorizontal
      ? overlapLength(from.top, from.height, other.top, other.height)
      : overlapLength(from.left, from.width, other.left, other.width);
    const distance = {
      left: from.left - (other.left + other.width),
      right: other.left - (from.left + from.width),
      up: from.top - (other.top + other.height),
      down: other.top - (from.top + from.height),
    }[side];
    if (overlap <= EPSILON || distance < -EPSILON) continue;
    const isEquallyNear = best && Math.abs(distance - best.distance) <= EPSILON;
    const isBetter = !best || distance < best.distance - EPSILON || (isEquallyNear && overlap > best.overlap);
    if (isBetter) best = { key: otherKey, distance, overlap };
  }
  return best?.key;
}

function overlapLength(start: number, length: number, otherStart: number, otherLength: number): number {
  return Math.min(start + length, otherStart + otherLength) - Math.max(start, otherStart);
}
