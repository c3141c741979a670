/** An attachment to a process over a WebSocket, which reconnects when the connection is lost. */

import { Backoff } from '../backoff.js';
import { OutliveError } from '../error.js';
import type { Http, Socket } from '../http.js';
import type { Process } from '../process.js';
import type { ProcessInfo, Role, Size } from '../types.js';
import {
  type ControlFrame,
  type Exit,
  type Gap,
  type Ready,
  type Repaint,
  RepaintAssembler,
  type Resized,
  splitStream,
  type StreamName,
} from './frames.js';
import { Queue } from './queue.js';

export interface AttachOptions {
  /** Offset of the first byte. Absent: only output from now on, unless `tail` is given. */
  from?: number;
  /** Start this many bytes before the end of the log. */
  tail?: number;
  /**
   * For terminals. `true`: start with a repaint of the screen instead of bytes (excludes `from` and `tail`). `false`:
   * never a repaint. Absent: a repaint after each gap, because the bytes after a gap are meaningless without one.
   */
  screen?: boolean;
  /** Lines above the screen that a repaint includes: 0 to 1000. */
  scrollback?: number;
  role?: Role;
  /** `lossless` (default of writers): the program waits for this client, within limits. */
  flow?: 'lossless' | 'live';
  size?: Size;
  /** Bytes that may be in flight to the reader. Without a limit a browser buffers everything in memory. */
  windowBytes?: number;
  /**
   * When output counts as consumed. `given` (default): when the next item is requested. `explicit`: only by calls of
   * `acknowledge`, for a reader with a queue of its own.
   */
  acknowledge?: 'given' | 'explicit';
  /**
   * Replaces the token. A string is valid for one connection, so the attachment ends when that connection is lost. A
   * function is called before each connection. Its errors are retried, except an `OutliveError` that is not passing.
   */
  ticket?: string | (() => Promise<string>);
}

export type AttachItem =
  | {
      type: 'connected';
      offset: number;
      role: Role;
      size: Size | undefined;
      /**
       * Output before this offset was printed before the connection. Clients with a ticket only know it from the
       * server.
       */
      head: number | undefined;
      sizePolicy: ProcessInfo['sizePolicy'];
    }
  /** The client retries automatically. */
  | { type: 'reconnecting'; why: string }
  | { type: 'output'; offset: number; stream: StreamName; bytes: Uint8Array }
  | Gap
  | Repaint
  | Resized
  /** Information for this client that does not end the attachment, such as refused input. */
  | { type: 'notice'; code: string; message: string }
  | Exit;

const DEFAULT_WINDOW_BYTES = 512 * 1024;
/** Consumed output is acknowledged after this delay, or immediately once a quarter of the window is consumed. */
const ACK_DELAY_MS = 100;
/** Input per frame; the server accepts 64 KiB. */
const INPUT_FRAME_BYTES = 32 * 1024;
/** Input that waits for a connection; more is dropped with a notice. */
const MAX_PENDING_INPUT_BYTES = 256 * 1024;
const OPEN_TIMEOUT_MS = 15_000;

/** Close codes after which reconnecting is pointless, with the error code that they become. */
const FATAL_CLOSES: Record<number, string> = { 1001: 'deleted', 1008: 'refused', 1009: 'message_too_large' };

/** Query parameters that decide where a connection starts. */
interface StartPosition {
  from?: number;
  tail?: number;
  screen?: boolean;
  scrollback?: number;
}

/**
 * An attachment to a process as a stream: `for await (const item of attachment)`. It ends after the exit or `close()`.
 * When a connection is lost, the next one continues at the exact byte; no byte is delivered twice.
 *
 * An item counts as consumed when the next one is requested, or with `acknowledge: 'explicit'` when `acknowledge` is
 * called. The server sends at most `windowBytes` beyond that.
 */
export class Attachment implements AsyncIterable<AttachItem>, AsyncIterator<AttachItem, undefined> {
  readonly #http: Http;
  readonly #process: Process;
  readonly #options: AttachOptions;
  readonly #items = new Queue<AttachItem>();
  readonly #closed = new AbortController();
  #socket: Socket | undefined;
  /** The server has sent `ready`. Earlier input waits; otherwise it would overtake the input that waits already. */
  #isReady = false;
  #size: Size | undefined;
  /** Offset of the next byte. */
  #offset: number | undefined;
  /** The reader has no screen that the next bytes could extend, so the next connection needs a repaint. */
  #needsScreen: boolean;
  /** Output or a repaint has been delivered. */
  #hasOutput = false;
  /** The reader has consumed everything before this offset. */
  #consumed = 0;
  /** The server knows that everything before this offset is consumed. */
  #acknowledged = 0;
  #ackTimer: ReturnType<typeof setTimeout> | undefined;
  /** End of the item delivered last; consumed when the next one is requested. */
  #deliveredEnd = 0;
  #pendingInput: Uint8Array<ArrayBuffer>[] = [];
  #pendingInputBytes = 0;
  /** Input bytes sent on this connection, and the server's input offset before them. */
  #sentBytes = 0;
  #inputOffset = 0;

  constructor(http: Http, process: Process, options: AttachOptions) {
    this.#http = http;
    this.#process = process;
    this.#options = options;
    this.#size = options.size;
    this.#offset = options.from;
    this.#needsScreen = options.screen === true;
    if (this.#needsScreen && (options.from !== undefined || options.tail !== undefined)) {
      throw new OutliveError('invalid_value', 'screen: true cannot be combined with from or tail');
    }
    void this.#run();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<AttachItem, undefined>> {
    if (this.#options.acknowledge !== 'explicit') this.#consume(this.#deliveredEnd);
    const result = await this.#items.next();
    const item = result.value;
    this.#deliveredEnd = item?.type === 'output' ? item.offset + item.bytes.length : 0;
    return result;
  }

  async return(): Promise<IteratorResult<AttachItem, undefined>> {
    this.close();
    return { done: true, value: undefined };
  }

  /** Marks everything before `offset` as consumed; for `acknowledge: 'explicit'`. */
  acknowledge(offset: number): void {
    this.#consume(offset);
  }

  /** Sends input. Without a connection it waits for the next one. */
  write(data: string | Uint8Array): void {
    const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : data;
    for (let at = 0; at < bytes.length; at += INPUT_FRAME_BYTES)
      this.#sendInput(bytes.slice(at, at + INPUT_FRAME_BYTES));
  }

  /** Reports this client's window size. The terminal's `sizePolicy` decides the effective size. */
  resize(size: Size): void {
    this.#size = size;
    this.#sendControl({ type: 'resize', ...size });
  }

  signal(signal: string | number): void {
    this.#sendControl({ type: 'signal', signal });
  }

  /** Detaches. The process keeps running. */
  close(): void {
    this.#closed.abort();
    this.#sendControl({ type: 'close' });
    this.#socket?.close(1000);
    this.#items.end();
  }

  async #run(): Promise<void> {
    const backoff = new Backoff();
    while (!this.#closed.signal.aborted) {
      try {
        const lossReason = await this.#connect(backoff);
        if (lossReason === undefined) return this.#items.end();
        this.#items.push({ type: 'reconnecting', why: lossReason });
      } catch (error) {
        if (this.#closed.signal.aborted) return;
        const canRetry = error instanceof OutliveError && error.isPassing;
        if (!canRetry || this.#hasSingleTicket) return this.#items.end(error);
        this.#items.push({ type: 'reconnecting', why: error.message });
      }
      if (this.#hasSingleTicket) {
        return this.#items.end(new OutliveError('ticket_used', 'connection lost; attach again with a new ticket'));
      }
      await backoff.pause(this.#closed.signal);
    }
  }

  get #hasSingleTicket(): boolean {
    return typeof this.#options.ticket === 'string';
  }

  /** Runs one connection to its end. Returns why it was lost, or `undefined` when the attachment is finished. */
  async #connect(backoff: Backoff): Promise<string | undefined> {
    const { role = 'writer', flow, windowBytes = DEFAULT_WINDOW_BYTES, ticket } = this.#options;
    let info: ProcessInfo | undefined;
    let credential: string | undefined;
    if (ticket === undefined) {
      // Browsers hide why a WebSocket was refused. These HTTP requests fail with the reason.
      info = await this.#process.info();
      if (this.#http.hasToken) credential = (await this.#process.ticket(role)).ticket;
    } else {
      credential = typeof ticket === 'string' ? ticket : await ticket().catch(throwTicketError);
    }
    // Closed during the requests above: `close()` saw no socket, so none may be opened now.
    if (this.#closed.signal.aborted) return undefined;
    const position = this.#startPosition(info);
    const skippedFrom = position.from === undefined ? this.#offset : undefined;
    const sentSize = this.#size;
    const query = { role, flow, ...sentSize, window: windowBytes, ticket: credential, ...position };
    const path = `/v1/processes/${encodeURIComponent(this.#process.id)}/connect`;
    const socket = this.#http.socket(path, query);
    socket.binaryType = 'arraybuffer';
    this.#socket = socket;
    return this.#follow(socket, info, (ready) => {
      backoff.reset();
      this.#onReady(ready, info);
      // `resize` was called while the connection was opening.
      if (this.#size && this.#size !== sentSize) this.resize(this.#size);
      if (skippedFrom !== undefined && skippedFrom < ready.offset) {
        this.#items.push({ type: 'gap', from: skippedFrom, to: ready.offset });
      }
    });
  }

  /** Handles the frames of one socket until it closes. */
  #follow(socket: Socket, info: ProcessInfo | undefined, onReady: (ready: Ready) => void): Promise<string | undefined> {
    return new Promise((resolve, reject) => {
      let hasExited = false;
      let repaint: RepaintAssembler | undefined;
      const openTimer = setTimeout(() => socket.close(), OPEN_TIMEOUT_MS);
      socket.onerror = () => {};
      socket.onmessage = ({ data }: { data: unknown }) => {
        if (typeof data !== 'string') {
          const bytes = new Uint8Array(data as ArrayBuffer);
          // With only a ticket the process info is unknown, and a terminal is assumed. If it runs on pipes instead, its
          // frames keep their first byte, the number of the stream.
          if (!repaint) return this.#onOutput(splitStream(bytes, info?.tty ?? true));
          repaint.add(bytes);
          if (this.#deliverRepaint(repaint)) repaint = undefined;
          return;
        }
        const frame = JSON.parse(data) as ControlFrame;
        if (frame.type === 'ready') {
          clearTimeout(openTimer);
          onReady(frame);
        } else if (frame.type === 'error') {
          this.#items.push({ type: 'notice', code: frame.code, message: frame.message });
        } else if (frame.type === 'repaint') {
          // If the connection is lost before the repaint is complete, the bytes after it are unusable.
          this.#needsScreen = true;
          repaint = new RepaintAssembler(frame);
          if (this.#deliverRepaint(repaint)) repaint = undefined;
        } else {
          if (frame.type === 'gap') this.#offset = frame.to;
          if (frame.type === 'exit') hasExited = true;
          this.#items.push(frame);
        }
      };
      socket.onclose = ({ code, reason }: { code: number; reason: string }) => {
        clearTimeout(openTimer);
        clearTimeout(this.#ackTimer);
        this.#ackTimer = undefined;
        this.#socket = undefined;
        this.#isReady = false;
        const fatal = FATAL_CLOSES[code];
        if (hasExited) resolve(undefined);
        else if (fatal) reject(new OutliveError(fatal, reason || `connection closed (${code})`));
        else resolve(reason || `connection lost (${code})`);
      };
    });
  }

  /** Where the next connection starts: at the exact byte or, if that byte is gone, with a repaint. */
  #startPosition(info: ProcessInfo | undefined): StartPosition {
    const { tail, screen, scrollback } = this.#options;
    const isTerminal = info?.tty ?? true;
    if (info && this.#offset !== undefined && this.#offset < info.outputStart) {
      // A reader that starts with bytes gets those that exist. One that already has output could not append them.
      if (isTerminal && (screen ?? this.#hasOutput)) {
        this.#needsScreen = true;
      } else {
        this.#items.push({ type: 'gap', from: this.#offset, to: info.outputStart });
        this.#offset = info.outputStart;
      }
    }
    if (!isTerminal) this.#needsScreen = false;
    const lines = isTerminal && scrollback !== undefined ? { scrollback } : {};
    if (this.#needsScreen) {
      // A reader without any output misses nothing, so no gap is reported.
      if (!this.#hasOutput) this.#offset = undefined;
      return { screen: true, ...lines };
    }
    const rest = { ...lines, ...(screen === false && { screen }) };
    if (this.#offset !== undefined) return { from: this.#offset, ...rest };
    return tail === undefined ? rest : { tail, ...rest };
  }

  #onReady(ready: Ready, info: ProcessInfo | undefined): void {
    const uncertain = this.#sentBytes - (ready.inputOffset - this.#inputOffset);
    if (this.#sentBytes > 0 && uncertain > 0) {
      // The input is not sent again: typing it twice would be worse than losing it.
      const message = `up to ${uncertain} bytes of input may not have arrived when the connection was lost`;
      this.#items.push({ type: 'notice', code: 'input_uncertain', message });
    }
    [this.#sentBytes, this.#inputOffset] = [0, ready.inputOffset];
    this.#offset = ready.offset;
    this.#consumed = Math.max(this.#consumed, ready.offset);
    this.#acknowledged = ready.offset;
    const size = ready.cols && ready.rows ? { cols: ready.cols, rows: ready.rows } : undefined;
    const { offset, role, head = info?.outputEnd } = ready;
    this.#items.push({ type: 'connected', offset, role, size, head, sizePolicy: info?.sizePolicy });
    this.#isReady = true;
    const pending = this.#pendingInput;
    [this.#pendingInput, this.#pendingInputBytes] = [[], 0];
    for (const bytes of pending) this.#sendInput(bytes);
  }

  #onOutput({ stream, bytes }: { stream: StreamName; bytes: Uint8Array }): void {
    const offset = this.#offset ?? 0;
    this.#offset = offset + bytes.length;
    [this.#needsScreen, this.#hasOutput] = [false, true];
    this.#items.push({ type: 'output', offset, stream, bytes });
  }

  /** Delivers a repaint if it is complete. */
  #deliverRepaint({ complete }: RepaintAssembler): boolean {
    if (!complete) return false;
    this.#offset = complete.offset;
    [this.#needsScreen, this.#hasOutput] = [false, true];
    this.#items.push(complete);
    return true;
  }

  #consume(offset: number): void {
    if (offset <= this.#consumed) return;
    this.#consumed = offset;
    const threshold = (this.#options.windowBytes ?? DEFAULT_WINDOW_BYTES) / 4;
    if (this.#consumed - this.#acknowledged >= threshold) this.#sendAck();
    else this.#ackTimer ??= setTimeout(() => this.#sendAck(), ACK_DELAY_MS);
  }

  #sendAck(): void {
    clearTimeout(this.#ackTimer);
    this.#ackTimer = undefined;
    if (this.#consumed <= this.#acknowledged) return;
    if (this.#sendControl({ type: 'ack', offset: this.#consumed })) this.#acknowledged = this.#consumed;
  }

  #isOpen(): boolean {
    return this.#socket?.readyState === 1;
  }

  #sendInput(bytes: Uint8Array<ArrayBuffer>): void {
    if (this.#isReady && this.#isOpen()) {
      this.#socket?.send(bytes);
      this.#sentBytes += bytes.length;
    } else if (this.#pendingInputBytes + bytes.length <= MAX_PENDING_INPUT_BYTES) {
      this.#pendingInput.push(bytes);
      this.#pendingInputBytes += bytes.length;
    } else {
      const message = 'input dropped: not connected, and the buffer for pending input is full';
      this.#items.push({ type: 'notice', code: 'input_refused', message });
    }
  }

  #sendControl(frame: object): boolean {
    if (!this.#isOpen()) return false;
    this.#socket?.send(JSON.stringify(frame));
    return true;
  }
}

/** Other errors than `OutliveError` count as a lost connection to the source of tickets, which is retried. */
function throwTicketError(error: unknown): never {
  if (error instanceof OutliveError) throw error;
  const reason = error instanceof Error ? error.message : String(error);
  throw new OutliveError('connection_lost', `cannot fetch a ticket: ${reason}`);
}
