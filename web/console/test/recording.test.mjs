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

/** Shows a recording as a list of what happened on the stage. */
function shown(text = TEXT, events) {
  const stage = [];
  const cast = parseCast(text);
  const playback = new Playback(
    { ...cast, events: events ?? cast.events },
    {
      begin: (cols, rows) => stage.push(`begin ${cols}x${rows}`),
      show: (event) => stage.push(event.kind === 'resize' ? `${event.cols}x${event.rows}` : event.data),
    },
  );
  const since = () => stage.splice(0);
  return { playback, since };
}

test('an_asciicast_is_read_as_far_as_it_makes_sense', () => {
  const { cols, rows, events } = parseCast(TEXT);
  assert.deepEqual([cols, rows], [80, 24]);
  assert.deepEqual(
    events.map(({ kind }) => kind),
    ['output', 'output', 'resize', 'mark', 'output'],
  );
  assert.throws(() => parseCast('{"version":3}'), /version 3/);
});

test('what_happens_at_once_is_shown_before_it_is_played', () => {
  const { since } = shown();
  assert.deepEqual(since(), ['begin 80x24', 'a']);
});

test('time_shows_what_is_due', () => {
  const { playback, since } = shown();
  since();
  playback.tick(5);
  assert.deepEqual(since(), [], 'it was not played yet');
  playback.play();
  playback.tick(0.9);
  assert.deepEqual(since(), []);
  playback.tick(0.2);
  assert.deepEqual(since(), ['b']);
  playback.speed = 4;
  playback.tick(0.25);
  assert.deepEqual(since(), ['100x30', 'gap']);
  assert.ok(Math.abs(playback.position - 2.1) < 1e-9);
  playback.tick(60);
  assert.deepEqual(since(), ['c']);
  assert.deepEqual([playback.position, playback.isPlaying, playback.isAtEnd], [10, false, true]);
});

test('what_is_over_is_played_from_its_beginning', () => {
  const { playback, since } = shown();
  playback.seek(99);
  since();
  playback.play();
  assert.deepEqual(since(), ['begin 80x24', 'a']);
  assert.equal(playback.isPlaying, true);
});

test('forward_goes_on_and_backward_begins_anew', () => {
  const { playback, since } = shown();
  since();
  playback.seek(1.6);
  assert.deepEqual(since(), ['b', '100x30']);
  playback.seek(1.2);
  assert.deepEqual(since(), ['begin 80x24', 'a', 'b']);
  playback.seek(-3);
  assert.equal(playback.position, 0);
});

test('long_pauses_are_cut_and_the_place_is_kept', () => {
  const { events } = parseCast(TEXT);
  const short = shortenPauses(events, 2);
  assert.deepEqual(
    short.map(({ at }) => at),
    [0, 1, 1.5, 2, 4],
  );
  const { playback, since } = shown(TEXT, events);
  playback.seek(9);
  since();
  playback.retime(short);
  assert.deepEqual([playback.position, playback.duration], [2, 4]);
  playback.seek(4);
  assert.deepEqual(since(), ['c']);
});

test('a_recording_without_events_is_over_at_once', () => {
  const { playback } = shown('{"version":2,"width":80,"height":24}\n');
  playback.play();
  assert.equal(playback.isPlaying, false);
});
