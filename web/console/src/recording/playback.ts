import type { Cast, CastEvent } from './asciicast.js';

/** Displays a recording. */
export interface PlaybackSink {
  /** Clears the screen and sets its size. */
  reset(cols: number, rows: number): void;
  apply(event: CastEvent): void;
}

/** Position and speed of a playing recording. It has no clock: the caller passes the elapsed time to `tick`. */
export class Playback {
  readonly #sink: PlaybackSink;
  #cast: Cast;
  /** Index of the next event. */
  #next = 0;
  position = 0;
  speed = 1;
  isPlaying = false;

  constructor(cast: Cast, sink: PlaybackSink) {
    this.#cast = cast;
    this.#sink = sink;
    sink.reset(cast.cols, cast.rows);
    this.#advanceTo(0);
  }

  get duration(): number {
    return this.#cast.events.at(-1)?.at ?? 0;
  }

  get isAtEnd(): boolean {
    return this.position >= this.duration;
  }

  /** Starts again from the start if the recording is at its end. */
  play(): void {
    if (this.isAtEnd) this.seek(0);
    this.isPlaying = this.duration > 0;
  }

  pause(): void {
    this.isPlaying = false;
  }

  tick(seconds: number): void {
    if (!this.isPlaying) return;
    this.#advanceTo(Math.min(this.position + seconds * this.speed, this.duration));
    if (this.isAtEnd) this.isPlaying = false;
  }

  /** Terminal output cannot be undone, so seeking backwards replays from the start. */
  seek(position: number): void {
    const target = Math.min(Math.max(position, 0), this.duration);
    if (target < this.position) {
      this.#next = 0;
      this.#sink.reset(this.#cast.cols, this.#cast.rows);
    }
    this.#advanceTo(target);
  }

  /** Replaces the times of the events; the position stays at the same event. */
  retime(events: CastEvent[]): void {
    this.#cast = { ...this.#cast, events };
    this.position = this.#next === 0 ? 0 : (events[this.#next - 1]?.at ?? 0);
  }

  #advanceTo(position: number): void {
    this.position = position;
    for (;;) {
      const event = this.#cast.events[this.#next];
      if (!event || event.at > position) return;
      this.#next += 1;
      this.#sink.apply(event);
    }
  }
}
