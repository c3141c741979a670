import assert from 'node:assert/strict';
import { test } from 'node:test';
import { neighbour, places } from '../checked/layout/places.js';
import { close, keys, leaf, moveDivider, split } from '../checked/layout/tree.js';

/** a | b, and b over c. */
const three = () => split(split(leaf('a'), 'a', 'row', 'b'), 'b', 'column', 'c');
const rounded = (tree) =>
  Object.fromEntries(
    [...places(tree).panes].map(([key, { left, top, width, height }]) => [
      key,
      [left, top, width, height].map((part) => Math.round(part * 100)),
    ]),
  );

test('a_split_halves_what_is_split', () => {
  assert.deepEqual(rounded(three()), { a: [0, 0, 50, 100], b: [50, 0, 50, 50], c: [50, 50, 50, 50] });
});

test('a_row_in_a_row_is_the_same_row', () => {
  const tree = split(split(leaf('a'), 'a', 'row', 'b'), 'a', 'row', 'c');
  assert.equal(tree.children.length, 3);
  assert.deepEqual(keys(tree), ['a', 'c', 'b']);
  assert.deepEqual(tree.shares, [0.25, 0.25, 0.5]);
});

test('neighbours_take_the_place_of_what_is_closed', () => {
  assert.deepEqual(rounded(close(three(), 'a')), { b: [0, 0, 100, 50], c: [0, 50, 100, 50] });
  assert.deepEqual(rounded(close(three(), 'c')), { a: [0, 0, 50, 100], b: [50, 0, 50, 100] });
  assert.equal(close(leaf('a'), 'a'), undefined);
  assert.deepEqual(close(leaf('a'), 'other'), leaf('a'));
});

test('a_divider_moves_only_its_two_sides', () => {
  const tree = split(split(leaf('a'), 'a', 'row', 'b'), 'b', 'row', 'c');
  const moved = moveDivider(tree, [], 0, 0.1);
  assert.deepEqual(
    moved.shares.map((share) => Math.round(share * 100)),
    [60, 15, 25],
  );
  const inner = moveDivider(three(), [1], 0, 0.25);
  assert.deepEqual(rounded(inner), { a: [0, 0, 50, 100], b: [50, 0, 50, 75], c: [50, 75, 50, 25] });
});

test('no_pane_is_dragged_away', () => {
  const tree = split(leaf('a'), 'a', 'row', 'b');
  assert.deepEqual(moveDivider(tree, [], 0, -5).shares, [0.08, 0.92]);
  assert.ok(moveDivider(tree, [], 0, 5).shares.every((share) => share > 0.07));
});

test('dividers_know_their_split', () => {
  const { dividers } = places(three());
  assert.deepEqual(
    dividers.map(({ direction, path, at, length }) => ({ direction, path, at, length })),
    [
      { direction: 'row', path: [], at: 0, length: 1 },
      { direction: 'column', path: [1], at: 0, length: 1 },
    ],
  );
});

test('who_leaves_a_pane_meets_its_neighbour', () => {
  const tree = three();
  assert.equal(neighbour(tree, 'a', 'right'), 'b');
  assert.equal(neighbour(tree, 'b', 'down'), 'c');
  assert.equal(neighbour(tree, 'c', 'up'), 'b');
  assert.equal(neighbour(tree, 'c', 'left'), 'a');
  assert.equal(neighbour(tree, 'a', 'left'), undefined);
  assert.equal(neighbour(tree, 'a', 'up'), undefined);
});
