import type { AttachItem, Attachment } from '@outlive/client';
import type { Console } from '../console.js';
import { processMenu } from '../list/process_menu.js';
import { bytes } from '../live/words.js';
import { LogTools } from '../logs/log_tools.js';
import { LogView } from '../logs/log_view.js';
import { element, setText } from '../page/element.js';
import { openMenu } from '../page/menu.js';
import { frame, type Frame, iconButton } from './frame.js';
import type { Pane, PaneSpec } from './pane.js';
import { followProcess } from './process_facts.js';

/** What is shown of a long past; the rest is asked for. */
const TAIL_BYTES = 512 * 1024;

/** What a process on pipes prints. */
export class LogsPane implements Pane {
  readonly element: HTMLElement;
  readonly #console: Console;
  readonly #id: string;
  readonly #view = new LogView();
  readonly #tools = new LogTools(this.#view, () => this.#begin({ from: 0 }));
  readonly #unfollow: () => void;
  #attachment: Attachment | undefined;
  #isOver = false;
  /** The next byte. */
  #offset: number | undefined;

  constructor(console: Console, spec: PaneSpec, key: string) {
    this.#console = console;
    this.#id = spec.id;
    const parts = frame(console, spec, key);
    this.element = parts.element;
    parts.body.append(this.#tools.element, this.#view.element);
    const more = iconButton('more', 'More actions', () => openMenu(more, processMenu(console, spec.id, key)), {
      'aria-haspopup': 'menu',
      'data-testid': 'pane-menu',
    });
    parts.actions.append(more);
    this.#unfollow = this.#followFacts(parts);
    this.#begin({ tail: TAIL_BYTES });
  }

  focus(): void {
    this.#view.element.focus();
  }

  dispose(): void {
    this.#attachment?.close();
    this.#tools.dispose();
    this.#unfollow();
  }

  #followFacts(parts: Frame): () => void {
    const size = element('span', { class: 'fact wide-only' });
    return followProcess(this.#console, this.#id, parts, [size], (process, before) => {
      setText(size, process.outputEnd > 0 ? bytes(process.outputEnd) : '');
      // Started again: its output goes on.
      if (before && process.generation > before.generation && this.#isOver) this.#attach({ from: this.#offset ?? 0 });
    });
  }

  #begin(where: { from: number } | { tail: number }): void {
    this.#view.clear();
    this.#view.isFollowing = 'tail' in where;
    this.#offset = undefined;
    this.#attach(where);
  }

  #attach(where: { from: number } | { tail: number }): void {
    this.#attachment?.close();
    // Who only reads keeps no program waiting.
    this.#attachment = this.#console.outlive.process(this.#id).attach({ ...where, role: 'viewer', flow: 'live' });
    void this.#read(this.#attachment);
  }

  async #read(attachment: Attachment): Promise<void> {
    this.#isOver = false;
    try {
      for await (const item of attachment) if (attachment === this.#attachment) this.#take(item);
    } catch (error) {
      this.#view.say(error instanceof Error ? error.message : String(error));
    }
    if (attachment === this.#attachment) this.#isOver = true;
  }

  #take(item: AttachItem): void {
    switch (item.type) {
      case 'connected':
        if (this.#offset === undefined) this.#tools.hasEarlier = item.offset > (this.#console.processes.get(this.#id)?.outputStart ?? 0);
        return;
      case 'output':
        this.#offset = item.offset + item.bytes.length;
        if (item.stream !== 'terminal') this.#view.add(item.stream, item.bytes);
        return;
      case 'gap':
        return this.#view.say(`${bytes(item.to - item.from)} are missing here: they came faster than they were read, or are too old.`);
      case 'reconnecting':
        return this.#view.say(`The connection was lost, and comes back by itself: ${item.why}`);
      case 'exit':
        return this.#view.say(item.signal ? `It was ended by ${item.signal}.` : `It exited with ${item.exitCode ?? '?'}.`);
    }
  }
}
