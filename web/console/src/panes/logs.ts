import type { AttachItem, Attachment, ProcessInfo } from '@outlive/client';
import type { Console } from '../console.js';
import { LogToolbar } from '../logs/log_toolbar.js';
import { LogView } from '../logs/log_view.js';
import { element, setText } from '../page/element.js';
import { openMenu } from '../page/menu.js';
import { processMenu } from '../sidebar/process_menu.js';
import { exitMessage, formatBytes } from '../state/format.js';
import { createFrame, iconButton, type PaneFrame } from './frame.js';
import type { Pane, PaneSpec } from './pane.js';
import { followProcess } from './process_facts.js';

/** Output shown at first; the rest is loaded on request. */
const TAIL_BYTES = 512 * 1024;
/** Most of the history that is shown on request. */
const MAX_STORED_BYTES = 4 * 1024 * 1024;

/** The output of a process on pipes. */
export class LogsPane implements Pane {
  readonly element: HTMLElement;
  readonly #console: Console;
  readonly #id: string;
  readonly #view = new LogView();
  readonly #toolbar = new LogToolbar(this.#view, () => this.#load({ from: 0 }));
  readonly #unsubscribe: () => void;
  #attachment: Attachment | undefined;
  /** The attachment has ended. */
  #isEnded = false;
  /** Offset of the next byte. */
  #offset: number | undefined;

  constructor(console: Console, spec: PaneSpec, key: string) {
    this.#console = console;
    this.#id = spec.id;
    const frame = createFrame(console, spec, key);
    this.element = frame.element;
    frame.body.append(this.#toolbar.element, this.#view.element);
    const more = iconButton('more', 'More actions', () => openMenu(more, processMenu(console, spec.id, key)), {
      'aria-haspopup': 'menu',
      'data-testid': 'pane-menu',
    });
    frame.actions.append(more);
    this.#unsubscribe = this.#followProcess(frame);
    this.#load({ tail: TAIL_BYTES });
  }

  focus(): void {
    this.#view.element.focus();
  }

  dispose(): void {
    this.#attachment?.close();
    this.#toolbar.dispose();
    this.#unsubscribe();
  }

  #followProcess(frame: PaneFrame): () => void {
    const size = element('span', { class: 'fact wide-only' });
    return followProcess(this.#console, this.#id, frame, [size], (process, previous) => {
      setText(size, process.outputEnd > 0 ? formatBytes(process.outputEnd) : '');
      // The process was started again, and its log continues.
      const isRestarted = previous && process.generation > previous.generation;
      if (isRestarted && this.#isEnded) this.#attach({ from: this.#offset ?? 0 });
    });
  }

  /** Replaces the shown output. */
  #load(start: { from: number } | { tail: number }): void {
    this.#view.clear();
    this.#view.isFollowing = 'tail' in start;
    this.#offset = undefined;
    this.#attach(start);
  }

  #attach(start: { from: number } | { tail: number }): void {
    this.#attachment?.close();
    const process = this.#console.processes.get(this.#id);
    if (process?.bootId !== undefined) return void this.#console.notices.attempt(() => this.#readStored(process, start));
    // With `live` the program never waits for this page.
    this.#attachment = this.#console.outlive.process(this.#id).attach({ ...start, role: 'viewer', flow: 'live' });
    void this.#read(this.#attachment);
  }

  /** Shows the end or the beginning of what the history has. */
  async #readStored(process: ProcessInfo, start: { from: number } | { tail: number }): Promise<void> {
    const handle = this.#console.outlive.process(this.#id);
    const { outputStart, outputEnd } = process;
    if ('tail' in start) {
      const from = Math.max(outputStart, outputEnd - start.tail);
      this.#toolbar.hasEarlierOutput = from > outputStart;
      for (const { stream, data } of await handle.logs({ from })) {
        this.#view.add(stream === 'stderr' ? 'stderr' : 'stdout', decodeBase64(data));
      }
    } else {
      const to = Math.min(outputEnd, outputStart + MAX_STORED_BYTES);
      this.#toolbar.hasEarlierOutput = false;
      this.#view.add('stdout', await handle.output({ from: outputStart, to }));
      if (to < outputEnd) this.#view.addNotice(`Print the rest with: outlive logs ${this.#id}`);
    }
  }

  async #read(attachment: Attachment): Promise<void> {
    this.#isEnded = false;
    try {
      for await (const item of attachment) if (attachment === this.#attachment) this.#handle(item);
    } catch (error) {
      this.#view.addNotice(error instanceof Error ? error.message : String(error));
    }
    if (attachment === this.#attachment) this.#isEnded = true;
  }

  #handle(item: AttachItem): void {
    switch (item.type) {
      case 'connected': {
        const outputStart = this.#console.processes.get(this.#id)?.outputStart ?? 0;
        if (this.#offset === undefined) this.#toolbar.hasEarlierOutput = item.offset > outputStart;
        return;
      }
      case 'output':
        this.#offset = item.offset + item.bytes.length;
        if (item.stream !== 'terminal') this.#view.add(item.stream, item.bytes);
        return;
      case 'gap':
        return this.#view.addNotice(
          `${formatBytes(item.to - item.from)} skipped: no longer in the log, or printed too fast`,
        );
      case 'reconnecting':
        return this.#view.addNotice(`Reconnecting… (${item.why})`);
      case 'exit':
        return this.#view.addNotice(exitMessage(item));
    }
  }
}

function decodeBase64(data: string): Uint8Array {
  return Uint8Array.from(atob(data), (char) => char.charCodeAt(0));
}
