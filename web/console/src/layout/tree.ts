/** How panes share a tab: leaves, and rows or columns of them. Pure: every change gives a new tree. */

export type Direction = 'row' | 'column';

export interface Leaf {
  type: 'leaf';
  key: string;
}

export interface Split {
  type: 'split';
  direction: Direction;
  children: Tree[];
  /** Of the whole, each; they add up to 1. */
  shares: number[];
}

export type Tree = Leaf | Split;

/** No pane becomes smaller than this part of its row or column by dragging. */
const LEAST_SHARE = 0.08;

export function leaf(key: string): Leaf {
  return { type: 'leaf', key };
}

export function keys(tree: Tree): string[] {
  return tree.type === 'leaf' ? [tree.key] : tree.children.flatMap(keys);
}

/** `key` gives half of its place to `added`. */
export function split(tree: Tree, key: string, direction: Direction, added: string): Tree {
  if (tree.type === 'leaf') {
    if (tree.key !== key) return tree;
    return { type: 'split', direction, children: [tree, leaf(added)], shares: [0.5, 0.5] };
  }
  const at = tree.children.findIndex((child) => child.type === 'leaf' && child.key === key);
  if (at < 0 || tree.direction !== direction) {
    return { ...tree, children: tree.children.map((child) => split(child, key, direction, added)) };
  }
  // A row in a row would be the same row.
  const half = tree.shares[at]! / 2;
  return {
    ...tree,
    children: tree.children.toSpliced(at + 1, 0, leaf(added)),
    shares: tree.shares.toSpliced(at, 1, half, half),
  };
}

/** Without `key`; its neighbours take its place. Nothing is left of a single leaf. */
export function close(tree: Tree, key: string): Tree | undefined {
  if (tree.type === 'leaf') return tree.key === key ? undefined : tree;
  const left = tree.children.map((child, at) => ({ child: close(child, key), share: tree.shares[at]! })).filter(hasChild);
  if (left.length <= 1) return left[0]?.child;
  const sum = left.reduce((total, { share }) => total + share, 0);
  return { ...tree, children: left.map(({ child }) => child), shares: left.map(({ share }) => share / sum) };
}

/** Moves the divider after child `at` of the split that `path` leads to, by a part of that split. */
export function moveDivider(tree: Tree, path: number[], at: number, by: number): Tree {
  if (tree.type === 'leaf') return tree;
  const [first, ...rest] = path;
  if (first !== undefined) {
    return { ...tree, children: tree.children.map((child, index) => (index === first ? moveDivider(child, rest, at, by) : child)) };
  }
  const both = tree.shares[at]! + tree.shares[at + 1]!;
  const least = Math.min(LEAST_SHARE, both / 2);
  const before = Math.min(Math.max(tree.shares[at]! + by, least), both - least);
  return { ...tree, shares: tree.shares.toSpliced(at, 2, before, both - before) };
}

function hasChild(part: { child: Tree | undefined; share: number }): part is { child: Tree; share: number } {
  return part.child !== undefined;
}
