// Until @outlive/xterm-addon is there: the part of its API that the console uses.
import type { Attachment, Outlive } from '@outlive/client';
import type { Terminal } from '@xterm/xterm';

export type State =
  | { name: 'disconnected' }
  | { name: 'connecting' }
  | { name: 'connected'; role: 'writer' | 'viewer' }
  | { name: 'reconnecting'; why: string }
  | { name: 'exited'; exitCode: number | null; signal?: string; exitReason: string }
  | { name: 'error'; error: Error };
export interface Notice { code: string; message: string }
export interface ConnectOptions { begin?: 'screen' | 'now' | { from: number } | { tail: number }; scrollback?: number; readOnly?: boolean; ticket?: string }

export class OutliveAddon {
  #terminal!: Terminal;
  #attachment: Attachment | undefined;
  #state: State = { name: 'disconnected' };
  #onState = new Set<(state: State) => void>();
  #onNotice = new Set<(notice: Notice) => void>();
  #onSize = new Set<(size: { cols: number; rows: number }) => void>();
  constructor(readonly options: { client: Outlive }) {}
  activate(terminal: Terminal): void {
    this.#terminal = terminal;
    terminal.onData((data) => this.#attachment?.write(data));
    terminal.onResize((size) => this.#attachment?.resize(size));
  }
  dispose(): void { this.disconnect(); }
  disconnect(): void { this.#attachment?.close(); this.#attachment = undefined; }
  get state(): State { return this.#state; }
  onStateChange(l: (state: State) => void) { this.#onState.add(l); return { dispose: () => this.#onState.delete(l) }; }
  onNotice(l: (notice: Notice) => void) { this.#onNotice.add(l); return { dispose: () => this.#onNotice.delete(l) }; }
  onSizeChange(l: (size: { cols: number; rows: number }) => void) { this.#onSize.add(l); return { dispose: () => this.#onSize.delete(l) }; }
  write(data: string): void { this.#attachment?.write(data); }
  connect(id: string, options: ConnectOptions = {}): void {
    this.disconnect();
    const { readOnly = false, ticket } = options;
    this.#terminal.options.disableStdin = readOnly;
    const size = { cols: this.#terminal.cols, rows: this.#terminal.rows };
    this.#attachment = this.options.client.process(id).attach({ tail: 262144, role: readOnly ? 'viewer' : 'writer', size, ...(ticket ? { ticket } : {}) });
    void this.#read(this.#attachment);
  }
  #set(state: State): void { this.#state = state; for (const l of this.#onState) l(state); }
  async #read(attachment: Attachment): Promise<void> {
    this.#set({ name: 'connecting' });
    try {
      for await (const item of attachment) {
        if (item.type === 'connected') { this.#set({ name: 'connected', role: item.role }); if (item.size) for (const l of this.#onSize) l(item.size); }
        else if (item.type === 'output') await new Promise<void>((done) => this.#terminal.write(item.bytes, done));
        else if (item.type === 'resized') { for (const l of this.#onSize) l(item); }
        else if (item.type === 'reconnecting') this.#set(item.why ? { name: 'reconnecting', why: item.why } : { name: 'reconnecting', why: '' });
        else if (item.type === 'exit') this.#set({ name: 'exited', exitCode: item.exitCode, exitReason: item.exitReason, ...(item.signal ? { signal: item.signal } : {}) });
        else if (item.type === 'notice') for (const l of this.#onNotice) l(item);
      }
    } catch (error) { this.#set({ name: 'error', error: error as Error }); }
  }
}
