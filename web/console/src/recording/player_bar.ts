import { element, fill, setText } from '../page/element.js';
import { icon } from '../page/icons.js';
import { formatBytes } from '../state/format.js';
import type { Playback } from './playback.js';

const SPEEDS = [0.5, 1, 2, 4, 8, 16];
const SLIDER_STEPS = 1000;

export interface PlayerActions {
  toggle(): void;
  /** `fraction`: 0 is the start, 1 the end. */
  seek(fraction: number): void;
  setSpeed(speed: number): void;
  setShortenPauses(isEnabled: boolean): void;
}

/** The controls below a recording. */
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
  #downloadUrl: string | undefined;

  constructor(actions: PlayerActions) {
    this.#play = element(
      'button',
      {
        type: 'button',
        class: 'quiet icon-only',
        'aria-label': 'Play',
        'data-testid': 'play',
        onclick: () => actions.toggle(),
      },
      icon('play'),
    );
    const seek = element('input', {
      type: 'range',
      min: 0,
      max: SLIDER_STEPS,
      value: 0,
      'aria-label': 'Position',
      'data-testid': 'seek',
    });
    seek.addEventListener('input', () => actions.seek(seek.valueAsNumber / SLIDER_STEPS));
    this.#seek = seek;
    const speed = element('select', { 'aria-label': 'Speed', 'data-testid': 'speed' });
    speed.append(...SPEEDS.map((value) => element('option', { value, selected: value === 1 }, `${value}×`)));
    speed.addEventListener('change', () => actions.setSpeed(Number(speed.value)));
    const pauses = element('input', { type: 'checkbox', checked: true });
    pauses.addEventListener('change', () => actions.setShortenPauses(pauses.checked));
    this.element = element(
      'div',
      { class: 'player', role: 'toolbar', 'aria-label': 'Player' },
      this.#play,
      this.#time,
      seek,
      speed,
      element('label', { class: 'wide-only' }, pauses, ' Shorten pauses'),
      this.#download,
    );
  }

  update(playback: Playback): void {
    const label = playback.isPlaying ? 'Pause' : 'Play';
    if (this.#play.getAttribute('aria-label') !== label) {
      this.#play.setAttribute('aria-label', label);
      fill(this.#play, icon(playback.isPlaying ? 'pause' : 'play'));
    }
    const time = `${formatTime(playback.position)} / ${formatTime(playback.duration)}`;
    setText(this.#time, time);
    const fraction = playback.duration === 0 ? 1 : playback.position / playback.duration;
    this.#seek.value = String(fraction * SLIDER_STEPS);
    this.#seek.setAttribute('aria-valuetext', time);
  }

  /** Offers the loaded recording for download: a link to the server could not carry the token. */
  setDownload(cast: string, name: string): void {
    this.dispose();
    this.#downloadUrl = URL.createObjectURL(new Blob([cast], { type: 'application/x-asciicast' }));
    this.#download.href = this.#downloadUrl;
    this.#download.download = name;
    this.#download.title = formatBytes(cast.length);
  }

  dispose(): void {
    if (this.#downloadUrl) URL.revokeObjectURL(this.#downloadUrl);
  }
}

function formatTime(seconds: number): string {
  const whole = Math.floor(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, '0')}`;
}
