import type { Console } from '../console.js';
import { bytes } from '../live/words.js';
import { element, fill, setText } from '../page/element.js';
import { icon } from '../page/icons.js';
import { type Cast, parseCast, shortenPauses } from '../recording/asciicast.js';
import { EmulatorStage } from '../recording/emulator_stage.js';
import { Playback } from '../recording/playback.js';
import { emulator } from '../terminal/emulator.js';
import { fitFont } from '../terminal/fit_font.js';
import { frame, iconButton } from './frame.js';
import type { Pane, PaneSpec } from './pane.js';
import { paneTitle } from './title.js';

const SPEEDS = [0.5, 1, 2, 4, 8, 16];
const LONGEST_PAUSE_S = 2;
const STEP_S = 5;

/** Plays what a terminal has shown. Nothing is typed into it, and what a program asks its terminal is not answered. */
export function recordingPane(console: Console, spec: PaneSpec, key: string): Pane {
  const parts = frame(console, spec, key);
  parts.dot.className = 'dot recording';
  const terminal = emulator({ disableStdin: true, cursorBlink: false });
  const screen = element('div', { class: 'screen stage', 'data-testid': 'recording' });
  const fit = fitFont(terminal, screen);
  const play = element('button', { type: 'button', class: 'quiet icon-only', 'aria-label': 'Play', 'data-testid': 'play', onclick: () => toggle() }, icon('play'));
  const time = element('span', { class: 'time', 'data-testid': 'time' });
  const seek = element('input', { type: 'range', min: 0, max: 1000, value: 0, step: 1, 'aria-label': 'Position', 'data-testid': 'seek', oninput: () => playback && (playback.seek((seek.valueAsNumber / 1000) * playback.duration), show()) });
  const speed = element('select', { 'aria-label': 'Speed', 'data-testid': 'speed', onchange: () => playback && (playback.speed = Number(speed.value)) });
  speed.append(...SPEEDS.map((value) => element('option', { value, selected: value === 1 }, `${value}×`)));
  const pauses = element('input', { type: 'checkbox', checked: true, onchange: () => retime() });
  const download = element('a', { class: 'button', 'aria-label': 'Download', 'data-testid': 'download' }, icon('download'), element('span', {}, 'Download'));
  const controls = element('div', { class: 'player', role: 'toolbar', 'aria-label': 'Player' }, play, time, seek, speed, element('label', { class: 'wide-only' }, pauses, ' shorten pauses'), download);
  const banner = element('div', { class: 'banner', role: 'status' }, 'Reading the recording…');
  parts.body.append(screen, banner, controls);
  parts.actions.append(iconButton('recording', 'Read it again', () => void load(), { class: 'quiet icon-only' }));

  let cast: Cast | undefined;
  let playback: Playback | undefined;
  let address: string | undefined;
  let frameAt: number | undefined;

  async function load(): Promise<void> {
    try {
      const text = await console.outlive.process(spec.id).recording();
      cast = parseCast(text);
      playback = new Playback({ ...cast, events: timed(cast) }, new EmulatorStage(terminal, fit));
      if (address) URL.revokeObjectURL(address);
      address = URL.createObjectURL(new Blob([text], { type: 'application/x-asciicast' }));
      download.href = address;
      download.download = `${paneTitle(console, spec).replace(/[^\w.-]+/g, '-')}.cast`;
      download.title = bytes(text.length);
      fill(banner, cast.events.some(({ kind }) => kind === 'mark') ? 'Parts of it are gone: the log keeps only the latest.' : '');
      toggle();
    } catch (error) {
      fill(banner, error instanceof Error ? error.message : String(error));
    }
  }

  function timed({ events }: Cast): Cast['events'] {
    return pauses.checked ? shortenPauses(events, LONGEST_PAUSE_S) : events;
  }

  function retime(): void {
    if (cast) playback?.retime(timed(cast));
    show();
  }

  function toggle(): void {
    if (!playback) return;
    if (playback.isPlaying) playback.pause();
    else playback.play();
    run();
    show();
  }

  function step(by: number): void {
    playback?.seek(playback.position + by);
    show();
  }

  function run(): void {
    if (frameAt !== undefined) return;
    let before = performance.now();
    const tick = (now: number) => {
      playback?.tick((now - before) / 1000);
      before = now;
      show();
      frameAt = playback?.isPlaying ? requestAnimationFrame(tick) : undefined;
    };
    frameAt = requestAnimationFrame(tick);
  }

  function show(): void {
    if (!playback) return;
    const label = playback.isPlaying ? 'Pause' : 'Play';
    if (play.getAttribute('aria-label') !== label) {
      play.setAttribute('aria-label', label);
      fill(play, icon(playback.isPlaying ? 'pause' : 'play'));
    }
    setText(time, `${clock(playback.position)} / ${clock(playback.duration)}`);
    seek.value = String(playback.duration === 0 ? 1000 : (playback.position / playback.duration) * 1000);
    seek.setAttribute('aria-valuetext', time.textContent ?? '');
  }

  parts.element.addEventListener('keydown', (event) => {
    if (event.target instanceof HTMLSelectElement || event.target instanceof HTMLInputElement || event.ctrlKey) return;
    const act = { ' ': toggle, ArrowLeft: () => step(-STEP_S), ArrowRight: () => step(STEP_S) }[event.key];
    if (!act || event.target instanceof HTMLButtonElement) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  });
  const watch = new ResizeObserver(() => {
    if (screen.clientWidth === 0) return;
    if (!terminal.element) {
      terminal.open(screen);
      void load();
    }
    fit();
  });
  watch.observe(screen);

  return {
    element: parts.element,
    focus: () => terminal.focus(),
    dispose() {
      watch.disconnect();
      if (frameAt !== undefined) cancelAnimationFrame(frameAt);
      if (address) URL.revokeObjectURL(address);
      terminal.dispose();
    },
  };
}

function clock(seconds: number): string {
  const whole = Math.floor(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, '0')}`;
}
