import { bytes } from '../live/words.js';
import { element, fill, setText } from '../page/element.js';
import { icon } from '../page/icons.js';
import type { Playback } from './playback.js';

const SPEEDS = [0.5, 1, 2, 4, 8, 16];
/** Steps of the slider. */
const STEPS = 1000;

export interface PlayerActions {
  toggle(): void;
  /** To a part of the whole. */
  seek(part: number): void;
  setSpeed(speed: number): void;
  shortenPauses(isWanted: boolean): void;
}

/** Play, time, position, speed, pauses, download: below a recording. */
export class PlayerBar {
  readonly element: HTMLElement;
  readonly #play: HTMLElement;
  readonly #time = element('span', { class: 'time', 'data-testid': 'time' });
  readonly #seek: HTMLInputElement;
  readonly #download = element(
    'a',
    { class: 'button', 'aria-label': 'Download', 'data-testid': 'download' },
    icon('download'),
    element('span', {}, 'Download'),
  );
  #address: string | undefined;

  constructor(actions: PlayerActions) {
    this.#play = element(
      'button',
      { type: 'button', class: 'quiet icon-only', 'aria-label': 'Play', 'data-testid': 'play', onclick: () => actions.toggle() },
      icon('play'),
    );
    const seek = element('input', { type: 'range', min: 0, max: STEPS, value: 0, 'aria-label': 'Position', 'data-testid': 'seek' });
    seek.addEventListener('input', () => actions.seek(seek.valueAsNumber / STEPS));
    this.#seek = seek;
    const speed = element('select', { 'aria-label': 'Speed', 'data-testid': 'speed' });
    speed.append(...SPEEDS.map((value) => element('option', { value, selected: value === 1 }, `${value}×`)));
    speed.addEventListener('change', () => actions.setSpeed(Number(speed.value)));
    const pauses = element('input', { type: 'checkbox', checked: true });
    pauses.addEventListener('change', () => actions.shortenPauses(pauses.checked));
    this.element = element(
      'div',
      { class: 'player', role: 'toolbar', 'aria-label': 'Player' },
      this.#play,
      this.#time,
      seek,
      speed,
      element('label', { class: 'wide-only' }, pauses, ' shorten pauses'),
      this.#download,
    );
  }

  show(playback: Playback): void {
    const label = playback.isPlaying ? 'Pause' : 'Play';
    if (this.#play.getAttribute('aria-label') !== label) {
      this.#play.setAttribute('aria-label', label);
      fill(this.#play, icon(playback.isPlaying ? 'pause' : 'play'));
    }
    const time = `${clock(playback.position)} / ${clock(playback.duration)}`;
    setText(this.#time, time);
    this.#seek.value = String(playback.duration === 0 ? STEPS : (playback.position / playback.duration) * STEPS);
    this.#seek.setAttribute('aria-valuetext', time);
  }

  /** A link cannot carry the token: what was read already is what is saved. */
  offer(cast: string, name: string): void {
    this.dispose();
    this.#address = URL.createObjectURL(new Blob([cast], { type: 'application/x-asciicast' }));
    this.#download.href = this.#address;
    this.#download.download = name;
    this.#download.title = bytes(cast.length);
  }

  dispose(): void {
    if (this.#address) URL.revokeObjectURL(this.#address);
  }
}

function clock(seconds: number): string {
  const whole = Math.floor(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, '0')}`;
}
