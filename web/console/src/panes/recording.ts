import type { Console } from '../console.js';
import { element, fill } from '../page/element.js';
import { type Cast, parseCast, shortenPauses } from '../recording/asciicast.js';
import { EmulatorStage } from '../recording/emulator_stage.js';
import { Playback } from '../recording/playback.js';
import { PlayerBar } from '../recording/player_bar.js';
import { emulator } from '../terminal/emulator.js';
import { fitFont } from '../terminal/fit_font.js';
import { frame, iconButton } from './frame.js';
import type { Pane, PaneSpec } from './pane.js';
import { paneTitle } from './title.js';

const LONGEST_PAUSE_S = 2;
const STEP_S = 5;

/** Plays what a terminal has shown. Nothing is typed into it, and what a program asks its terminal is not answered. */
export class RecordingPane implements Pane {
  readonly element: HTMLElement;
  readonly #console: Console;
  readonly #spec: PaneSpec;
  readonly #terminal = emulator({ disableStdin: true });
  readonly #screen = element('div', { class: 'screen stage', 'data-testid': 'recording' });
  readonly #banner = element('div', { class: 'banner', role: 'status' }, 'Reading the recording…');
  readonly #fit = fitFont(this.#terminal, this.#screen);
  readonly #watch = new ResizeObserver(() => this.#place());
  readonly #bar: PlayerBar;
  #cast: Cast | undefined;
  #playback: Playback | undefined;
  #isShortened = true;
  #frame: number | undefined;

  constructor(console: Console, spec: PaneSpec, key: string) {
    this.#console = console;
    this.#spec = spec;
    const parts = frame(console, spec, key);
    this.element = parts.element;
    parts.dot.className = 'dot recording';
    parts.actions.append(iconButton('recording', 'Read it again', () => void this.#load()));
    this.#bar = new PlayerBar({
      toggle: () => this.#toggle(),
      seek: (part) => this.#change((playback) => playback.seek(part * playback.duration)),
      setSpeed: (speed) => this.#change((playback) => (playback.speed = speed)),
      shortenPauses: (isWanted) => {
        this.#isShortened = isWanted;
        this.#change((playback) => playback.retime(this.#events()));
      },
    });
    parts.body.append(this.#screen, this.#banner, this.#bar.element);
    this.element.addEventListener('keydown', (event) => this.#key(event));
    this.#watch.observe(this.#screen);
  }

  focus(): void {
    this.#terminal.focus();
  }

  dispose(): void {
    this.#watch.disconnect();
    if (this.#frame !== undefined) cancelAnimationFrame(this.#frame);
    this.#bar.dispose();
    this.#terminal.dispose();
  }

  #place(): void {
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
      this.#playback = new Playback({ ...this.#cast, events: this.#events() }, new EmulatorStage(this.#terminal, this.#fit));
      this.#bar.offer(text, `${paneTitle(this.#console, this.#spec).replace(/[^\w.-]+/g, '-')}.cast`);
      const hasGaps = this.#cast.events.some(({ kind }) => kind === 'mark');
      fill(this.#banner, hasGaps ? 'Parts of it are gone: the log keeps only the latest.' : '');
      this.#toggle();
    } catch (error) {
      fill(this.#banner, error instanceof Error ? error.message : String(error));
    }
  }

  #events(): Cast['events'] {
    const events = this.#cast?.events ?? [];
    return this.#isShortened ? shortenPauses(events, LONGEST_PAUSE_S) : events;
  }

  #change(act: (playback: Playback) => void): void {
    if (!this.#playback) return;
    act(this.#playback);
    this.#bar.show(this.#playback);
  }

  #toggle(): void {
    this.#change((playback) => (playback.isPlaying ? playback.pause() : playback.play()));
    this.#run();
  }

  #run(): void {
    if (this.#frame !== undefined) return;
    let before = performance.now();
    const tick = (now: number) => {
      this.#change((playback) => playback.tick((now - before) / 1000));
      before = now;
      this.#frame = this.#playback?.isPlaying ? requestAnimationFrame(tick) : undefined;
    };
    this.#frame = requestAnimationFrame(tick);
  }

  #key(event: KeyboardEvent): void {
    const isForControl = event.target instanceof Element && event.target.closest('select, input, button, a');
    if (isForControl || event.ctrlKey) return;
    const step = (by: number) => this.#change((playback) => playback.seek(playback.position + by));
    const act = { ' ': () => this.#toggle(), ArrowLeft: () => step(-STEP_S), ArrowRight: () => step(STEP_S) }[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }
}
