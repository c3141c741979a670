/** How panes share a tab: leaves, and rows or columns of them. Pure: every change returns a new tree. */

export type Direction = 'row' | 'column';

export interface Leaf {
  type: 'leaf';
  key: string;
}

export interface Split {
  type: 'split';
  direction: Direction;
  children: Tree[];
  /** The fraction of the split that each child takes; the sum is 1. */
  shares: number[];
}

export type Tree = Leaf | Split;

/** Dragging a divider leaves a pane at least this share of its row or column. */
const MIN_SHARE = 0.08;

export function leaf(key: string): Leaf {
  return { type: 'leaf', key };
}

export function keys(tree: Tree): string[] {
  return tree.type === 'leaf' ? [tree.key] : tree.children.flatMap(keys);
}

/** Gives half of the space of `key` to `added`. */
export function split(tree: Tree, key: string, direction: Direction, added: string): Tree {
  if (tree.type === 'leaf') {
    if (tree.key !== key) return tree;
    return { type: 'split', direction, children: [tree, leaf(added)], shares: [0.5, 0.5] };
  }
  const index = tree.children.findIndex((child) => child.type === 'leaf' && child.key === key);
  if (index < 0 || tree.direction !== direction) {
    return { ...tree, children: tree.children.map((child) => split(child, key, direction, added)) };
  }
  // The direction is the same, so the new leaf joins this split instead of nesting another one.
  const half = tree.shares[index]! / 2;
  return {
    ...tree,
    children: tree.children.toSpliced(index + 1, 0, leaf(added)),
    shares: tree.shares.toSpliced(index, 1, half, half),
  };
}

/** Removes `key`; its siblings take its space. Returns `undefined` if nothing is left. */
export function close(tree: Tree, key: string): Tree | undefined {
  if (tree.type === 'leaf') return tree.key === key ? undefined : tree;
  const remaining = tree.children
    .map((child, index) => ({ child: close(child, key), share: tree.shares[index]! }))
    .filter(hasChild);
  if (remaining.length <= 1) return remaining[0]?.child;
  const sum = remaining.reduce((total, { share }) => total + share, 0);
  return {
    ...tree,
    children: remaining.map(({ child }) => child),
    shares: remaining.map(({ share }) => share / sum),
  };
}

/** Moves the divider after child `index` of the split at `path` by a fraction of that split. */
export function moveDivider(tree: Tree, path: number[], index: number, by: number): Tree {
  if (tree.type === 'leaf') return tree;
  const [first, ...rest] = path;
  if (first !== undefined) {
    const children = tree.children.map((child, at) => (at === first ? moveDivider(child, rest, index, by) : child));
    return { ...tree, children };
  }
  const sum = tree.shares[index]! + tree.shares[index + 1]!;
  const minShare = Math.min(MIN_SHARE, sum / 2);
  const before = Math.min(Math.max(tree.shares[index]! + by, minShare), sum - minShare);
  return { ...tree, shares: tree.shares.toSpliced(index, 2, before, sum - before) };
}

function hasChild(part: { child: Tree | undefined; share: number }): part is { child: Tree; share: number } {
  return part.child !== undefined;
}
