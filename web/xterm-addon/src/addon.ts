/** The addon: connects an emulator to a process, in both directions. */

import type { Attachment, AttachItem, AttachOptions, Process, Size } from '@outlive/client';
import { EffectiveSize } from './effective_size.js';
import { InputFilter } from './input_filter.js';
import type { ConnectOptions, Disposable, Emulator, Notice, Options, State } from './types.js';
import { WriteQueue } from './write_queue.js';

/** A full reset, queued in order with the output. The emulator's `reset()` would act before output that waits. */
const RESET = '\x1bc';

/** The parts that belong to one emulator. */
interface EmulatorParts {
  emulator: Emulator;
  output: WriteQueue;
  size: EffectiveSize;
  subscriptions: Disposable[];
}

/** Shows a terminal of outlive in an emulator and reconnects when the connection is lost. */
export class OutliveAddon {
  readonly #options: Options;
  readonly #stateChanges = new Emitter<State>();
  readonly #notices = new Emitter<Notice>();
  readonly #sizeChanges = new Emitter<Size>();
  #state: State = { name: 'disconnected' };
  #parts: EmulatorParts | undefined;
  #attachment: Attachment | undefined;
  /** The emulator's `disableStdin` before the addon set it for a read-only connection. */
  #savedDisableStdin: boolean | undefined;

  constructor(options: Options = {}) {
    this.#options = options;
  }

  get state(): State {
    return this.#state;
  }

  onStateChange(listener: (state: State) => void): Disposable {
    return this.#stateChanges.add(listener);
  }

  onNotice(listener: (notice: Notice) => void): Disposable {
    return this.#notices.add(listener);
  }

  /** Called with the terminal's effective size, as the server reports it. */
  onSizeChange(listener: (size: Size) => void): Disposable {
    return this.#sizeChanges.add(listener);
  }

  /** Called by the terminal's `loadAddon`. */
  activate(emulator: Emulator): void {
    // ghostty-web replies to queries although `disableStdin` is set.
    const inputFilter = new InputFilter((data) => this.#canWrite && this.write(data));
    const size = new EffectiveSize(emulator, (requested) => this.#canWrite && this.#attachment?.resize(requested));
    const subscriptions = [
      emulator.onData((data) => inputFilter.onData(data)),
      emulator.onResize(({ cols, rows }) => size.onEmulatorResize({ cols, rows })),
    ];
    if (emulator.onBinary) {
      const write = (data: string) => this.write(Uint8Array.from(data, (byte) => byte.charCodeAt(0)));
      subscriptions.push(emulator.onBinary(write));
    }
    this.#parts = { emulator, output: new WriteQueue(emulator, inputFilter), size, subscriptions };
  }

  dispose(): void {
    this.disconnect();
    for (const subscription of this.#parts?.subscriptions ?? []) subscription.dispose();
    this.#parts = undefined;
  }

  /** Connects to a process, or its id, `tag:NAME` or `pid:NUMBER`. Detaches from the previous one. */
  connect(target: Process | string, options: ConnectOptions = {}): void {
    const parts = this.#parts;
    if (!parts) throw new Error('the addon is not loaded; call terminal.loadAddon(addon) first');
    const process = typeof target === 'string' ? this.#options.client?.process(target) : target;
    if (!process) throw new Error('connecting by id needs a client; use new OutliveAddon({ client })');
    this.#detach();
    const merged = { ...this.#options, ...options };
    const { cols, rows } = parts.emulator;
    const attachment = process.attach(attachOptions(merged, { cols, rows }));
    this.#attachment = attachment;
    if (merged.readOnly) this.#disableStdin(parts.emulator);
    this.#setState({ name: 'connecting' });
    void this.#follow(attachment, parts, merged);
  }

  /** Detaches. The process keeps running, and the screen keeps its content. */
  disconnect(): void {
    this.#detach();
    if (this.#state.name !== 'disconnected') this.#setState({ name: 'disconnected' });
  }

  /** Sends input as if the user typed it. While it reconnects, input waits; after a disconnect or an exit it is dropped. */
  write(data: string | Uint8Array): void {
    this.#attachment?.write(data);
  }

  signal(signal: string | number): void {
    this.#attachment?.signal(signal);
  }

  async #follow(attachment: Attachment, parts: EmulatorParts, options: ConnectOptions): Promise<void> {
    const { begin = 'screen', answers = true } = options;
    // Replayed bytes need an empty screen. A repaint clears the screen itself.
    if (typeof begin === 'object') parts.output.repaint(RESET);
    /** Output before this offset is old: its terminal queries are not answered. */
    let head = 0;
    try {
      for await (const item of attachment) {
        if (attachment !== this.#attachment) return;
        if (item.type === 'output') {
          for (const [bytes, end] of splitAt(item, head)) {
            parts.output.write(bytes, !answers || end <= head, () => attachment.acknowledge(end));
          }
          continue;
        }
        if (item.type === 'repaint') {
          await parts.output.discard();
          attachment.acknowledge(item.offset);
        } else if (item.type !== 'gap') {
          await parts.output.drained();
        }
        if (attachment !== this.#attachment) return;
        if (item.type === 'connected') head = item.head ?? 0;
        this.#handle(item, parts);
      }
    } catch (error) {
      if (attachment !== this.#attachment) return;
      this.#detach();
      this.#setState({ name: 'error', error: error instanceof Error ? error : new Error(String(error)) });
    }
  }

  #handle(item: Exclude<AttachItem, { type: 'output' }>, { emulator, output, size }: EmulatorParts): void {
    switch (item.type) {
      case 'connected': {
        if (item.role === 'viewer') this.#disableStdin(emulator);
        const isOurs = item.role === 'writer' && (item.sizePolicy ?? 'latest') === 'latest';
        if (item.size) this.#setSize(size, item.size, isOurs);
        return this.#setState({ name: 'connected', role: item.role });
      }
      case 'reconnecting':
        return this.#setState({ name: 'reconnecting', why: item.why });
      case 'repaint':
        this.#setSize(size, item);
        size.lock();
        output.repaint(item.bytes, () => size.unlock());
        if (item.approximate) {
          const message =
            'parts of this screen may be missing: the program printed faster than the server could follow';
          this.#notices.emit({ code: 'approximate', message });
        }
        return;
      case 'resized':
        return this.#setSize(size, item, item.sizePolicy ? this.#canWrite && item.sizePolicy === 'latest' : undefined);
      case 'gap':
        return this.#notices.emit({ code: 'gap', message: `${item.to - item.from} bytes are missing` });
      case 'notice':
        return this.#notices.emit({ code: item.code, message: item.message });
      case 'exit': {
        this.#detach();
        const { exitCode, exitReason, signal } = item;
        return this.#setState({ name: 'exited', exitCode, exitReason, ...(signal !== undefined && { signal }) });
      }
    }
  }

  #setSize(effective: EffectiveSize, { cols, rows }: Size, isOurs?: boolean | undefined): void {
    effective.set({ cols, rows }, isOurs);
    this.#sizeChanges.emit({ cols, rows });
  }

  /** False for a viewer, by `readOnly` or by role: `#disableStdin` was called for this attachment. */
  get #canWrite(): boolean {
    return this.#savedDisableStdin === undefined;
  }

  #disableStdin({ options }: Emulator): void {
    this.#savedDisableStdin ??= options.disableStdin ?? false;
    options.disableStdin = true;
  }

  #detach(): void {
    const attachment = this.#attachment;
    this.#attachment = undefined;
    attachment?.close();
    this.#parts?.size.clear();
    if (this.#savedDisableStdin === undefined) return;
    if (this.#parts) this.#parts.emulator.options.disableStdin = this.#savedDisableStdin;
    this.#savedDisableStdin = undefined;
  }

  #setState(state: State): void {
    this.#state = state;
    this.#stateChanges.emit(state);
  }
}

class Emitter<T> {
  readonly #listeners = new Set<(value: T) => void>();

  add(listener: (value: T) => void): Disposable {
    // A wrapper per registration: the same function may be added twice and disposed of once.
    const own = (value: T) => listener(value);
    this.#listeners.add(own);
    return { dispose: () => this.#listeners.delete(own) };
  }

  emit(value: T): void {
    for (const listener of [...this.#listeners]) listener(value);
  }
}

function attachOptions(options: ConnectOptions, size: Size): AttachOptions {
  const { begin = 'screen', readOnly = false, scrollback, flow, windowBytes, ticket } = options;
  return {
    ...(begin === 'screen' ? { screen: true } : begin === 'now' ? {} : begin),
    ...(scrollback !== undefined && { scrollback }),
    ...(flow !== undefined && { flow }),
    ...(windowBytes !== undefined && { windowBytes }),
    ...(ticket !== undefined && { ticket }),
    ...(readOnly ? { role: 'viewer' as const } : { size }),
    acknowledge: 'explicit',
  };
}

/** Splits output at `head`, so that old and new bytes are separate. Each part comes with the offset of its end. */
function splitAt({ offset, bytes }: { offset: number; bytes: Uint8Array }, head: number): [Uint8Array, number][] {
  const end = offset + bytes.length;
  if (head <= offset || head >= end) return [[bytes, end]];
  return [
    [bytes.subarray(0, head - offset), head],
    [bytes.subarray(head - offset), end],
  ];
}
