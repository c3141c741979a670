import type { Console } from '../console.js';
import { element, fill } from '../page/element.js';
import { type Cast, parseCast, shortenPauses } from '../recording/asciicast.js';
import { EmulatorSink } from '../recording/emulator_sink.js';
import { Playback } from '../recording/playback.js';
import { PlayerBar } from '../recording/player_bar.js';
import { createEmulator } from '../terminal/emulator.js';
import { fitFont } from '../terminal/fit_font.js';
import { createFrame, iconButton, paneTitle } from './frame.js';
import type { Pane, PaneSpec } from './pane.js';

/** Longest pause when pauses are shortened. */
const MAX_PAUSE_S = 2;
/** Seek step of the arrow keys. */
const SEEK_STEP_S = 5;

/** Plays the recording of a terminal. Input and replies of the emulator go nowhere. */
export class RecordingPane implements Pane {
  readonly element: HTMLElement;
  readonly #console: Console;
  readonly #spec: PaneSpec;
  readonly #terminal = createEmulator({ disableStdin: true });
  readonly #screen = element('div', { class: 'screen recording-screen', 'data-testid': 'recording' });
  readonly #banner = element('div', { class: 'banner', role: 'status' }, 'Loading recording…');
  readonly #fit = fitFont(this.#terminal, this.#screen);
  readonly #resizeObserver = new ResizeObserver(() => this.#onResize());
  readonly #bar: PlayerBar;
  #cast: Cast | undefined;
  #playback: Playback | undefined;
  #shortenPauses = true;
  #animationFrame: number | undefined;

  constructor(console: Console, spec: PaneSpec, key: string) {
    this.#console = console;
    this.#spec = spec;
    const frame = createFrame(console, spec, key);
    this.element = frame.element;
    frame.dot.className = 'dot recording';
    frame.actions.append(iconButton('recording', 'Reload recording', () => void this.#load()));
    this.#bar = new PlayerBar({
      toggle: () => this.#toggle(),
      seek: (fraction) => this.#change((playback) => playback.seek(fraction * playback.duration)),
      setSpeed: (speed) => this.#change((playback) => (playback.speed = speed)),
      setShortenPauses: (isEnabled) => {
        this.#shortenPauses = isEnabled;
        this.#change((playback) => playback.retime(this.#events()));
      },
    });
    frame.body.append(this.#screen, this.#banner, this.#bar.element);
    this.element.addEventListener('keydown', (event) => this.#onKey(event));
    this.#resizeObserver.observe(this.#screen);
  }

  focus(): void {
    this.#terminal.focus();
  }

  dispose(): void {
    this.#resizeObserver.disconnect();
    if (this.#animationFrame !== undefined) cancelAnimationFrame(this.#animationFrame);
    this.#bar.dispose();
    this.#terminal.dispose();
  }

  #onResize(): void {
    if (this.#screen.clientWidth === 0) return;
    if (!this.#terminal.element) {
      this.#terminal.open(this.#screen);
      void this.#load();
    }
    this.#fit();
  }

  async #load(): Promise<void> {
    try {
      const text = await this.#console.outlive.process(this.#spec.id).recording();
      this.#cast = parseCast(text);
      const sink = new EmulatorSink(this.#terminal, this.#fit);
      this.#playback = new Playback({ ...this.#cast, events: this.#events() }, sink);
      this.#bar.setDownload(text, `${paneTitle(this.#console, this.#spec).replace(/[^\w.-]+/g, '-')}.cast`);
      const hasGaps = this.#cast.events.some(({ kind }) => kind === 'gap');
      fill(this.#banner, hasGaps ? 'Incomplete: the log keeps only recent output.' : '');
      this.#toggle();
    } catch (error) {
      fill(this.#banner, error instanceof Error ? error.message : String(error));
    }
  }

  #events(): Cast['events'] {
    const events = this.#cast?.events ?? [];
    return this.#shortenPauses ? shortenPauses(events, MAX_PAUSE_S) : events;
  }

  /** Changes the playback, if the recording is loaded, and updates the player bar. */
  #change(action: (playback: Playback) => void): void {
    if (!this.#playback) return;
    action(this.#playback);
    this.#bar.update(this.#playback);
  }

  #toggle(): void {
    this.#change((playback) => (playback.isPlaying ? playback.pause() : playback.play()));
    this.#animate();
  }

  #animate(): void {
    if (this.#animationFrame !== undefined) return;
    let previous = performance.now();
    const tick = (now: number) => {
      this.#change((playback) => playback.tick((now - previous) / 1000));
      previous = now;
      this.#animationFrame = this.#playback?.isPlaying ? requestAnimationFrame(tick) : undefined;
    };
    this.#animationFrame = requestAnimationFrame(tick);
  }

  #onKey(event: KeyboardEvent): void {
    const isForControl = event.target instanceof Element && event.target.closest('select, input, button, a');
    if (isForControl || event.ctrlKey) return;
    const step = (by: number) => this.#change((playback) => playback.seek(playback.position + by));
    const actions: Record<string, () => void> = {
      ' ': () => this.#toggle(),
      ArrowLeft: () => step(-SEEK_STEP_S),
      ArrowRight: () => step(SEEK_STEP_S),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    event.stopPropagation();
    action();
  }
}
