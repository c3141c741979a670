import type { SessionEvent } from '@outlive/client';
import type { Console } from '../console.js';
import { element, fill } from '../page/element.js';
import { openMenu } from '../page/menu.js';
import { Prompt } from '../session/prompt.js';
import { Transcript } from '../session/transcript.js';
import { confirmDeleteSession } from '../sidebar/session_list.js';
import { createFrame, iconButton, type PaneFrame } from './frame.js';
import type { Pane, PaneSpec } from './pane.js';

/** A session: its commands with their output, and a prompt for the next command. */
export class SessionPane implements Pane {
  readonly element: HTMLElement;
  readonly #console: Console;
  readonly #id: string;
  readonly #frame: PaneFrame;
  readonly #transcript: Transcript;
  readonly #prompt: Prompt;
  readonly #unsubscribe: () => void;

  constructor(console: Console, spec: PaneSpec, key: string) {
    this.#console = console;
    this.#id = spec.id;
    this.#frame = createFrame(console, spec, key);
    this.element = this.#frame.element;
    const session = console.outlive.session(spec.id);
    this.#prompt = new Prompt({
      run: (command) => void this.#transcript.run(command),
      interrupt: () => this.#transcript.cancelRunning(),
    });
    this.#transcript = new Transcript(session, {
      cancel: (execId) => void console.notices.attempt(() => session.cancel(execId)),
      addToHistory: (command) => this.#prompt.addToHistory(command),
    });
    this.#frame.body.append(this.#transcript.element, this.#prompt.element);
    const items = [{ label: 'Delete session…', isDangerous: true, run: () => confirmDeleteSession(console, spec.id) }];
    const more = iconButton('more', 'More actions', () => openMenu(more, items), { 'aria-haspopup': 'menu' });
    this.#frame.actions.append(more);
    this.#unsubscribe = console.sessions.onChange((event) => this.#onChange(event));
    this.#showFacts();
    void console.notices.attempt(() => this.#transcript.load());
  }

  focus(): void {
    this.#prompt.focus();
  }

  dispose(): void {
    this.#unsubscribe();
  }

  #onChange(event: SessionEvent | undefined): void {
    this.#showFacts();
    // Without an event, all may have changed. If reading fails, the session was deleted or the server is gone.
    if (event === undefined) this.#transcript.load().catch(() => {});
    else if (event.session.id === this.#id && event.execId !== undefined) this.#transcript.update(event.execId);
  }

  #showFacts(): void {
    const info = this.#console.sessions.get(this.#id);
    this.#frame.dot.className = `dot session ${info?.status ?? 'exited'}`;
    fill(
      this.#frame.facts,
      element('span', { class: 'fact', 'data-testid': 'state' }, info ? info.status : 'deleted'),
      element('span', { class: 'fact' }, info?.shell ?? ''),
      info && info.generation > 1 ? element('span', { class: 'fact' }, `shell ${info.generation}`) : null,
    );
    this.#prompt.showDirectory(info?.cwd);
  }
}
