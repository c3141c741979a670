import { OutliveError, type Session } from '@outlive/client';
import type { Console } from '../console.js';
import { remove } from '../list/session_list.js';
import { element, fill } from '../page/element.js';
import { openMenu } from '../page/menu.js';
import { ExecView } from '../session/exec_view.js';
import { Prompt } from '../session/prompt.js';
import { frame, type Frame, iconButton } from './frame.js';
import type { Pane, PaneSpec } from './pane.js';

/** Commands of the past that are shown; of each, so much of what it printed. */
const PAST_COMMANDS = 20;
const PAST_OUTPUT_BYTES = 16 * 1024;

/** A shell that remembers: what was run in it, and a line for the next command. */
export class SessionPane implements Pane {
  readonly element: HTMLElement;
  readonly #console: Console;
  readonly #id: string;
  readonly #session: Session;
  readonly #parts: Frame;
  readonly #transcript: HTMLElement;
  readonly #prompt = new Prompt({ run: (command) => void this.#run(command), interrupt: () => this.#running?.cancel() });
  readonly #unfollow: () => void;
  #running: ExecView | undefined;

  constructor(console: Console, spec: PaneSpec, key: string) {
    this.#console = console;
    this.#id = spec.id;
    this.#session = console.outlive.session(spec.id);
    this.#parts = frame(console, spec, key);
    this.element = this.#parts.element;
    const label = `Commands of session ${spec.id}`;
    this.#transcript = element('div', { class: 'transcript', role: 'log', tabindex: 0, 'aria-label': label, 'data-testid': 'transcript' });
    this.#parts.body.append(this.#transcript, this.#prompt.element);
    const items = [{ label: 'Delete session…', isDangerous: true, run: () => remove(console, spec.id) }];
    const more = iconButton('more', 'More actions', () => openMenu(more, items), { 'aria-haspopup': 'menu' });
    this.#parts.actions.append(more);
    this.#unfollow = console.sessions.onChange(() => this.#showFacts());
    this.#showFacts();
    void console.notices.try(() => this.#loadPast());
  }

  focus(): void {
    this.#prompt.focus();
  }

  dispose(): void {
    this.#unfollow();
  }

  #showFacts(): void {
    const info = this.#console.sessions.get(this.#id);
    this.#parts.dot.className = `dot session ${info?.status ?? 'exited'}`;
    fill(
      this.#parts.facts,
      element('span', { class: 'fact', 'data-testid': 'state' }, info ? info.status : 'gone'),
      element('span', { class: 'fact' }, info?.shell ?? ''),
      info && info.generation > 1 ? element('span', { class: 'fact' }, `shell ${info.generation}`) : null,
    );
    this.#prompt.showFolder(info?.cwd);
  }

  async #loadPast(): Promise<void> {
    for (const { command, execId, status } of (await this.#session.execs()).slice(-PAST_COMMANDS)) {
      this.#prompt.remember(command);
      const view = new ExecView(command, () => this.#cancel(execId));
      this.#transcript.append(view.element);
      void this.#showResult(view, execId, { maxOutputBytes: PAST_OUTPUT_BYTES, wait: status === 'running' || status === 'queued' });
    }
    requestAnimationFrame(() => this.#toEnd());
  }

  async #run(command: string): Promise<void> {
    let execId: string | undefined;
    const view = new ExecView(command, () => this.#cancel(execId));
    this.#running = view;
    this.#transcript.append(view.element);
    this.#toEnd();
    void this.#look();
    try {
      for await (const item of this.#session.stream(command)) {
        if (item.type === 'start') execId = item.execId;
        else if (item.type === 'end') view.end(item.exec);
        else if (item.type === 'gap') view.say('Something is missing here.');
        else view.print(item.type, item.bytes);
        this.#toEnd();
      }
    } catch (error) {
      if (execId === undefined || !isLost(error)) view.fail(error);
    }
    // The stream broke off; the command did not.
    if (!view.isOver && execId !== undefined) await this.#showResult(view, execId, { wait: true });
    if (this.#running === view) this.#running = undefined;
    this.#toEnd();
    await this.#look();
  }

  async #showResult(view: ExecView, execId: string, how: { wait: boolean; maxOutputBytes?: number }): Promise<void> {
    try {
      view.showResult(await this.#session.result(execId, how));
    } catch (error) {
      view.fail(error);
    }
  }

  #cancel(execId: string | undefined): void {
    if (execId !== undefined) void this.#console.notices.try(() => this.#session.cancel(execId));
  }

  async #look(): Promise<void> {
    await this.#console.sessions.look().catch(() => {});
  }

  #toEnd(): void {
    this.#transcript.scrollTop = this.#transcript.scrollHeight;
  }
}

/** Nobody refused anything: a connection broke, or the server was replaced. */
function isLost(error: unknown): boolean {
  return !(error instanceof OutliveError) || error.isPassing || error.code === 'server_replaced';
}
