import type { Cast, CastEvent } from './asciicast.js';

/** Where a recording is shown. */
export interface Stage {
  /** Empty, with this size. */
  begin(cols: number, rows: number): void;
  show(event: CastEvent): void;
}

/** Where in a recording we are, and how fast we go on. It has no clock of its own: `tick` is told how much time has passed. */
export class Playback {
  readonly #stage: Stage;
  #cast: Cast;
  /** Of the next event. */
  #next = 0;
  position = 0;
  speed = 1;
  isPlaying = false;

  constructor(cast: Cast, stage: Stage) {
    this.#cast = cast;
    this.#stage = stage;
    stage.begin(cast.cols, cast.rows);
    this.#showUntil(0);
  }

  get duration(): number {
    return this.#cast.events.at(-1)?.at ?? 0;
  }

  get isAtEnd(): boolean {
    return this.position >= this.duration;
  }

  /** From the beginning, if it is over. */
  play(): void {
    if (this.isAtEnd) this.seek(0);
    this.isPlaying = this.duration > 0;
  }

  pause(): void {
    this.isPlaying = false;
  }

  tick(seconds: number): void {
    if (!this.isPlaying) return;
    this.#showUntil(Math.min(this.position + seconds * this.speed, this.duration));
    if (this.isAtEnd) this.isPlaying = false;
  }

  /** A screen cannot be played backwards: going back begins anew. */
  seek(position: number): void {
    const to = Math.min(Math.max(position, 0), this.duration);
    if (to < this.position) {
      this.#next = 0;
      this.#stage.begin(this.#cast.cols, this.#cast.rows);
    }
    this.#showUntil(to);
  }

  /** The same events at other times; we stay at the same event. */
  retime(events: CastEvent[]): void {
    this.#cast = { ...this.#cast, events };
    this.position = this.#next === 0 ? 0 : (events[this.#next - 1]?.at ?? 0);
  }

  #showUntil(position: number): void {
    this.position = position;
    for (;;) {
      const event = this.#cast.events[this.#next];
      if (!event || event.at > position) return;
      this.#next += 1;
      this.#stage.show(event);
    }
  }
}
