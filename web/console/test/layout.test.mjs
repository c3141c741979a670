import assert from 'node:assert/strict';
import { test } from 'node:test';
import { computeLayout, neighbour } from '../checked/layout/geometry.js';
import { close, keys, leaf, moveDivider, split } from '../checked/layout/tree.js';

/** `a` on the left; on the right `b` above `c`. */
const three = () => split(split(leaf('a'), 'a', 'row', 'b'), 'b', 'column', 'c');
/** Rectangles of the panes in percent. */
const percentages = (tree) =>
  Object.fromEntries(
    [...computeLayout(tree).panes].map(([key, { left, top, width, height }]) => [
      key,
      [left, top, width, height].map((part) => Math.round(part * 100)),
    ]),
  );

test('a split halves the pane', () => {
  assert.deepEqual(percentages(three()), { a: [0, 0, 50, 100], b: [50, 0, 50, 50], c: [50, 50, 50, 50] });
});

test('a split in the direction of its row joins the row', () => {
  const tree = split(split(leaf('a'), 'a', 'row', 'b'), 'a', 'row', 'c');
  assert.equal(tree.children.length, 3);
  assert.deepEqual(keys(tree), ['a', 'c', 'b']);
  assert.deepEqual(tree.shares, [0.25, 0.25, 0.5]);
});

test('siblings take the space of a closed pane', () => {
  assert.deepEqual(percentages(close(three(), 'a')), { b: [0, 0, 100, 50], c: [0, 50, 100, 50] });
  assert.deepEqual(percentages(close(three(), 'c')), { a: [0, 0, 50, 100], b: [50, 0, 50, 100] });
  assert.equal(close(leaf('a'), 'a'), undefined);
  assert.deepEqual(close(leaf('a'), 'other'), leaf('a'));
});

test('a divider resizes only its two sides', () => {
  const tree = split(split(leaf('a'), 'a', 'row', 'b'), 'b', 'row', 'c');
  const moved = moveDivider(tree, [], 0, 0.1);
  assert.deepEqual(
    moved.shares.map((share) => Math.round(share * 100)),
    [60, 15, 25],
  );
  const inner = moveDivider(three(), [1], 0, 0.25);
  assert.deepEqual(percentages(inner), { a: [0, 0, 50, 100], b: [50, 0, 50, 75], c: [50, 75, 50, 25] });
});

test('a divider leaves a minimum share to both sides', () => {
  const tree = split(leaf('a'), 'a', 'row', 'b');
  assert.deepEqual(moveDivider(tree, [], 0, -5).shares, [0.08, 0.92]);
  assert.ok(moveDivider(tree, [], 0, 5).shares.every((share) => share > 0.07));
});

test('dividers refer to their split', () => {
  const { dividers } = computeLayout(three());
  assert.deepEqual(
    dividers.map(({ direction, path, index, length }) => ({ direction, path, index, length })),
    [
      { direction: 'row', path: [], index: 0, length: 1 },
      { direction: 'column', path: [1], index: 0, length: 1 },
    ],
  );
});

test('neighbour finds the adjacent pane on each side', () => {
  const tree = three();
  assert.equal(neighbour(tree, 'a', 'right'), 'b');
  assert.equal(neighbour(tree, 'b', 'down'), 'c');
  assert.equal(neighbour(tree, 'c', 'up'), 'b');
  assert.equal(neighbour(tree, 'c', 'left'), 'a');
  assert.equal(neighbour(tree, 'a', 'left'), undefined);
  assert.equal(neighbour(tree, 'a', 'up'), undefined);
});
