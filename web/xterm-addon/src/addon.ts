import type { AttachItem, Attachment, Process, Size } from '@outlive/client';
import type { Emulator } from './emulator.js';
import { type Disposable, Listeners } from './listeners.js';
import { attachOptions, type ConnectOptions, type Options } from './options.js';
import { Screen } from './screen.js';
import { RulingSize } from './size.js';
import type { Notice, State } from './state.js';
import { Typing } from './typing.js';

/** A full reset, in its place among what is written; `reset()` would overtake it. */
const RESET = '\x1bc';

/** Everything that belongs to one emulator. */
interface Parts {
  emulator: Emulator;
  screen: Screen;
  size: RulingSize;
  listening: Disposable[];
}

/** A terminal of outlive in an emulator, across lost connections. */
export class OutliveAddon {
  readonly #options: Options;
  readonly #states = new Listeners<State>();
  readonly #notices = new Listeners<Notice>();
  readonly #sizes = new Listeners<Size>();
  #state: State = { name: 'disconnected' };
  #parts: Parts | undefined;
  #attachment: Attachment | undefined;
  /** What `disableStdin` was before it was ours. */
  #stdinBefore: boolean | undefined;

  constructor(options: Options = {}) {
    this.#options = options;
  }

  get state(): State {
    return this.#state;
  }

  onStateChange(listener: (state: State) => void): Disposable {
    return this.#states.add(listener);
  }

  onNotice(listener: (notice: Notice) => void): Disposable {
    return this.#notices.add(listener);
  }

  /** The size of the terminal, as the server says. */
  onSizeChange(listener: (size: Size) => void): Disposable {
    return this.#sizes.add(listener);
  }

  /** Called by the terminal's `loadAddon`. */
  activate(emulator: Emulator): void {
    // ghostty-web answers although its keyboard is off.
    const typing = new Typing((data) => this.#mayType && this.write(data));
    const size = new RulingSize(emulator, (wish) => this.#mayType && this.#attachment?.resize(wish));
    const listening = [emulator.onData((data) => typing.came(data)), emulator.onResize(({ cols, rows }) => size.changed({ cols, rows }))];
    if (emulator.onBinary) {
      listening.push(emulator.onBinary((data) => this.write(Uint8Array.from(data, (byte) => byte.charCodeAt(0)))));
    }
    this.#parts = { emulator, screen: new Screen(emulator, typing), size, listening };
  }

  dispose(): void {
    this.disconnect();
    for (const listener of this.#parts?.listening ?? []) listener.dispose();
    this.#parts = undefined;
  }

  /** A process, or its id, `tag:NAME` or `pid:NUMBER`. Whatever was connected before is let go. */
  connect(target: Process | string, options: ConnectOptions = {}): void {
    const parts = this.#parts;
    if (!parts) throw new Error('load it first: terminal.loadAddon(addon)');
    const process = typeof target === 'string' ? this.#options.client?.process(target) : target;
    if (!process) throw new Error('an id needs a client: new OutliveAddon({ client })');
    this.#letGo();
    const all = { ...this.#options, ...options };
    const { cols, rows } = parts.emulator;
    const attachment = process.attach(attachOptions(all, { cols, rows }));
    this.#attachment = attachment;
    if (all.readOnly) this.#silence(parts.emulator);
    this.#become({ name: 'connecting' });
    void this.#follow(attachment, parts, all);
  }

  /** Detaches. The process does not mind, and what is on the screen stays. */
  disconnect(): void {
    this.#letGo();
    if (this.#state.name !== 'disconnected') this.#become({ name: 'disconnected' });
  }

  /** Types, as the user does; waits while there is no connection. */
  write(data: string | Uint8Array): void {
    this.#attachment?.write(data);
  }

  signal(signal: string | number): void {
    this.#attachment?.signal(signal);
  }

  async #follow(attachment: Attachment, parts: Parts, options: ConnectOptions): Promise<void> {
    const { begin = 'screen', answers = true } = options;
    // Bytes from the past belong on an empty screen; a repaint empties it by itself.
    if (typeof begin === 'object') parts.screen.repaint(RESET);
    /** What comes before this offset is the past. */
    let head = 0;
    try {
      for await (const item of attachment) {
        if (attachment !== this.#attachment) return;
        if (item.type === 'output') {
          for (const [bytes, end] of cut(item, head)) {
            parts.screen.write(bytes, !answers || end <= head, () => attachment.acknowledge(end));
          }
          continue;
        }
        if (item.type === 'repaint') {
          await parts.screen.abandon();
          attachment.acknowledge(item.offset);
        } else if (item.type !== 'gap') {
          await parts.screen.settled();
        }
        if (attachment !== this.#attachment) return;
        if (item.type === 'connected') head = item.head ?? 0;
        this.#understand(item, parts);
      }
    } catch (error) {
      if (attachment !== this.#attachment) return;
      this.#letGo();
      this.#become({ name: 'error', error: error instanceof Error ? error : new Error(String(error)) });
    }
  }

  #understand(item: Exclude<AttachItem, { type: 'output' }>, { emulator, screen, size }: Parts): void {
    switch (item.type) {
      case 'connected':
        if (item.role === 'viewer') this.#silence(emulator);
        if (item.size) this.#rule(size, item.size, item.role === 'writer' && (item.sizePolicy ?? 'latest') === 'latest');
        return this.#become({ name: 'connected', role: item.role });
      case 'reconnecting':
        return this.#become({ name: 'reconnecting', why: item.why });
      case 'repaint':
        this.#rule(size, item);
        size.hold();
        screen.repaint(item.bytes, () => size.release());
        if (item.approximate) this.#notices.tell({ code: 'approximate', message: 'more was printed than could be followed: parts of this screen may be missing' });
        return;
      case 'resized':
        return this.#rule(size, item, item.sizePolicy ? this.#mayType && item.sizePolicy === 'latest' : undefined);
      case 'gap':
        return this.#notices.tell({ code: 'gap', message: `${item.to - item.from} bytes are gone` });
      case 'notice':
        return this.#notices.tell({ code: item.code, message: item.message });
      case 'exit': {
        this.#letGo();
        const { exitCode, exitReason, signal } = item;
        return this.#become({ name: 'exited', exitCode, exitReason, ...(signal !== undefined && { signal }) });
      }
    }
  }

  #rule(ruling: RulingSize, { cols, rows }: Size, weRule?: boolean | undefined): void {
    ruling.rule({ cols, rows }, weRule);
    this.#sizes.tell({ cols, rows });
  }

  get #mayType(): boolean {
    return this.#stdinBefore === undefined;
  }

  #silence({ options }: Emulator): void {
    this.#stdinBefore ??= options.disableStdin ?? false;
    options.disableStdin = true;
  }

  #letGo(): void {
    const attachment = this.#attachment;
    this.#attachment = undefined;
    attachment?.close();
    this.#parts?.size.forget();
    if (this.#stdinBefore === undefined) return;
    if (this.#parts) this.#parts.emulator.options.disableStdin = this.#stdinBefore;
    this.#stdinBefore = undefined;
  }

  #become(state: State): void {
    this.#state = state;
    this.#states.tell(state);
  }
}

/** Output in two pieces where the past ends in the middle of it, each with the offset of its end. */
function cut({ offset, bytes }: { offset: number; bytes: Uint8Array }, head: number): [Uint8Array, number][] {
  const end = offset + bytes.length;
  if (head <= offset || head >= end) return [[bytes, end]];
  return [
    [bytes.subarray(0, head - offset), head],
    [bytes.subarray(head - offset), end],
  ];
}
