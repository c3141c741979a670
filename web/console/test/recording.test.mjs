import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseCast, shortenPauses } from '../checked/recording/asciicast.js';
import { Playback } from '../checked/recording/playback.js';

const TEXT = [
  '{"version":2,"width":80,"height":24}',
  '[0.0,"o","a"]',
  '[1.0,"o","b"]',
  '[1.5,"r","100x30"]',
  '[2.0,"m","gap"]',
  '[10.0,"o","c"]',
  '[11.0,"i","typed, and not shown"]',
  '[12.0,"o","cut o',
].join('\n');

/** A playback whose sink records its calls; `calls()` returns and clears them. */
function createPlayback(text = TEXT, events) {
  const recorded = [];
  const cast = parseCast(text);
  const playback = new Playback(
    { ...cast, events: events ?? cast.events },
    {
      reset: (cols, rows) => recorded.push(`reset ${cols}x${rows}`),
      apply: (event) => recorded.push(event.kind === 'resize' ? `${event.cols}x${event.rows}` : event.data),
    },
  );
  const calls = () => recorded.splice(0);
  return { playback, calls };
}

test('a truncated asciicast with unknown events is parsed', () => {
  const { cols, rows, events } = parseCast(TEXT);
  assert.deepEqual([cols, rows], [80, 24]);
  assert.deepEqual(
    events.map(({ kind }) => kind),
    ['output', 'output', 'resize', 'gap', 'output'],
  );
  assert.throws(() => parseCast('{"version":3}'), /version 3/);
});

test('events at time zero are shown before playing', () => {
  const { calls } = createPlayback();
  assert.deepEqual(calls(), ['reset 80x24', 'a']);
});

test('tick applies the events that are due', () => {
  const { playback, calls } = createPlayback();
  calls();
  playback.tick(5);
  assert.deepEqual(calls(), [], 'not playing yet');
  playback.play();
  playback.tick(0.9);
  assert.deepEqual(calls(), []);
  playback.tick(0.2);
  assert.deepEqual(calls(), ['b']);
  playback.speed = 4;
  playback.tick(0.25);
  assert.deepEqual(calls(), ['100x30', 'gap']);
  assert.ok(Math.abs(playback.position - 2.1) < 1e-9);
  playback.tick(60);
  assert.deepEqual(calls(), ['c']);
  assert.deepEqual([playback.position, playback.isPlaying, playback.isAtEnd], [10, false, true]);
});

test('play at the end starts from the beginning', () => {
  const { playback, calls } = createPlayback();
  playback.seek(99);
  calls();
  playback.play();
  assert.deepEqual(calls(), ['reset 80x24', 'a']);
  assert.equal(playback.isPlaying, true);
});

test('seeking forwards continues and seeking backwards replays', () => {
  const { playback, calls } = createPlayback();
  calls();
  playback.seek(1.6);
  assert.deepEqual(calls(), ['b', '100x30']);
  playback.seek(1.2);
  assert.deepEqual(calls(), ['reset 80x24', 'a', 'b']);
  playback.seek(-3);
  assert.equal(playback.position, 0);
});

test('shortening pauses keeps the current event', () => {
  const { events } = parseCast(TEXT);
  const short = shortenPauses(events, 2);
  assert.deepEqual(
    short.map(({ at }) => at),
    [0, 1, 1.5, 2, 4],
  );
  const { playback, calls } = createPlayback(TEXT, events);
  playback.seek(9);
  calls();
  playback.retime(short);
  assert.deepEqual([playback.position, playback.duration], [2, 4]);
  playback.seek(4);
  assert.deepEqual(calls(), ['c']);
});

test('a recording without events does not play', () => {
  const { playback } = createPlayback('{"version":2,"width":80,"height":24}\n');
  playback.play();
  assert.equal(playback.isPlaying, false);
});
