import { type ExecInfo, OutliveError, type Session } from '@outlive/client';
import { element } from '../page/element.js';
import { ExecView } from './exec_view.js';

/** How many earlier commands are shown, and how much output of each. */
const HISTORY_COMMANDS = 20;
const HISTORY_OUTPUT_BYTES = 16 * 1024;

/** Distance from the end, in pixels, within which a new command is scrolled into view. */
const FOLLOW_DISTANCE = 40;

export interface TranscriptActions {
  cancel(execId: string): void;
  /** Called for each earlier command, oldest first. */
  addToHistory(command: string): void;
}

/**
 * The commands of a session with their output. The output of commands that this page runs is streamed; that of other
 * commands is read when an event says that they have ended.
 */
export class Transcript {
  readonly element: HTMLElement;
  readonly #session: Session;
  readonly #actions: TranscriptActions;
  /** The command of this page that runs. */
  #running: ExecView | undefined;
  /** All commands that are shown, and earlier ones. */
  readonly #known = new Set<string>();
  /** Commands that this page does not stream and that have not ended. */
  readonly #unfinished = new Map<string, ExecView>();
  /** Commands that events were about, to be read one after the other. */
  readonly #toRead = new Set<string>();
  #isReading = false;
  /** Resolve when commands of this page have their ids. Until then an unknown command may be one of them. */
  readonly #starts = new Set<Promise<void>>();
  #listed: Promise<void> = Promise.resolve();

  constructor(session: Session, actions: TranscriptActions) {
    this.#session = session;
    this.#actions = actions;
    const label = `Commands of session ${session.id}`;
    this.element = element('div', {
      class: 'transcript',
      role: 'log',
      tabindex: 0,
      'aria-label': label,
      'data-testid': 'transcript',
    });
  }

  /** Shows the latest of the commands that are not known yet. For the first time, and after events were lost. */
  async load(): Promise<void> {
    const listed = this.#addUnknown();
    // Commands that events announce meanwhile come after the listed ones.
    this.#listed = listed.catch(() => {});
    await listed;
  }

  /** A command was queued or started, or has ended. */
  update(execId: string): void {
    this.#toRead.add(execId);
    // In a busy session only the latest commands are shown.
    const [oldest] = this.#toRead;
    if (oldest !== undefined && this.#toRead.size > HISTORY_COMMANDS) this.#toRead.delete(oldest);
    void this.#readUpdated();
  }

  cancelRunning(): void {
    this.#running?.cancel();
  }

  /** Runs a command and streams its output. */
  async run(command: string): Promise<void> {
    let execId: string | undefined;
    const view = new ExecView(command, () => execId !== undefined && this.#actions.cancel(execId));
    this.#running = view;
    this.element.append(view.element);
    this.#scrollToEnd();
    const endStart = this.#beginStart();
    try {
      for await (const item of this.#session.stream(command)) {
        if (item.type === 'start') {
          execId = item.execId;
          this.#known.add(execId);
          endStart();
        } else if (item.type === 'end') view.end(item.exec);
        else if (item.type === 'gap') view.addNotice('Some output is missing here.');
        else view.print(item.type, item.bytes);
        this.#scrollToEnd();
      }
    } catch (error) {
      if (execId === undefined || !isLost(error)) view.fail(error);
    }
    endStart();
    // The stream was lost, but the command still runs or has ended meanwhile.
    if (!view.isEnded && execId !== undefined) await this.#awaitResult(view, execId);
    if (this.#running === view) this.#running = undefined;
    this.#scrollToEnd();
  }

  /** Returns a function to call when the id of the command is known, or the command was refused. */
  #beginStart(): () => void {
    let end = () => {};
    const start = new Promise<void>((resolve) => {
      end = resolve;
    });
    this.#starts.add(start);
    void start.then(() => this.#starts.delete(start));
    return end;
  }

  async #awaitResult(view: ExecView, execId: string): Promise<void> {
    try {
      view.showResult(await this.#session.result(execId, { wait: true }));
    } catch (error) {
      view.fail(error);
    }
  }

  async #addUnknown(): Promise<void> {
    const all = await this.#session.execs();
    await Promise.all(this.#starts);
    const unknown = all.filter(({ execId }) => !this.#known.has(execId));
    for (const { execId } of unknown) this.#known.add(execId);
    for (const exec of unknown.slice(-HISTORY_COMMANDS)) {
      this.#actions.addToHistory(exec.command);
      this.#add(exec);
    }
    if (unknown.length > 0) requestAnimationFrame(() => this.#scrollToEnd());
    await Promise.all([...this.#unfinished.keys()].map((execId) => this.#read(execId)));
  }

  #add({ execId, command }: ExecInfo): void {
    const view = new ExecView(command, () => this.#actions.cancel(execId));
    this.#known.add(execId);
    this.#unfinished.set(execId, view);
    const { scrollTop, clientHeight, scrollHeight } = this.element;
    const isAtEnd = scrollTop + clientHeight >= scrollHeight - FOLLOW_DISTANCE;
    this.element.append(view.element);
    if (isAtEnd) this.#scrollToEnd();
  }

  async #readUpdated(): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    for (const execId of this.#toRead) {
      await this.#listed;
      await Promise.all(this.#starts);
      this.#toRead.delete(execId);
      if (!this.#known.has(execId) || this.#unfinished.has(execId)) await this.#read(execId);
    }
    this.#isReading = false;
  }

  async #read(execId: string): Promise<void> {
    try {
      const exec = await this.#session.result(execId, { maxOutputBytes: HISTORY_OUTPUT_BYTES });
      if (!this.#known.has(execId)) this.#add(exec);
      const view = this.#unfinished.get(execId);
      // Two requests may read the same command.
      if (!view || (exec.status !== 'finished' && exec.status !== 'refused')) return;
      this.#unfinished.delete(execId);
      view.showResult(exec);
    } catch (error) {
      // After a lost connection, an event or `load` leads here again.
      if (!isLost(error)) this.#unfinished.get(execId)?.fail(error);
    }
  }

  #scrollToEnd(): void {
    this.element.scrollTop = this.element.scrollHeight;
  }
}

/** The connection was lost or the server was replaced; the command was not refused. */
function isLost(error: unknown): boolean {
  return !(error instanceof OutliveError) || error.isPassing || error.code === 'server_replaced';
}
