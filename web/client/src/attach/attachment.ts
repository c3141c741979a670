import { Backoff } from '../backoff.js';
import type { Http, Socket } from '../http.js';
import { OutliveError } from '../problem.js';
import type { Process } from '../process.js';
import type { ProcessInfo, Role, Size } from '../types.js';
import { type Control, type Exit, type Gap, type Ready, type Resized, splitStream, type StreamName } from './frames.js';
import { Queue } from './queue.js';
import { Gathering, type Repaint } from './repaint.js';

export interface AttachOptions {
  /** The first byte; absent: only what comes from now on, unless `tail` says otherwise. */
  from?: number;
  /** Begin so many bytes before the end. */
  tail?: number;
  /**
   * Of a terminal. `true`: begin with a repaint of its screen instead of bytes (not together with `from` and `tail`). `false`: never a
   * repaint. Absent: one after a gap, since what comes behind a gap means nothing without.
   */
  screen?: boolean;
  /** Lines above the screen that belong to a repaint: 0 to 1000. */
  scrollback?: number;
  role?: Role;
  /** `lossless`: the program waits for us, within bounds. Default of writers. */
  flow?: 'lossless' | 'live';
  size?: Size;
  /** How many bytes may be under way to the reader. A browser would take everything, and fill its memory. */
  windowBytes?: number;
  /**
   * What counts as taken: `given` (default), what was given out, when the next item is asked for; `explicit`, only what `acknowledge`
   * says, for a reader that has a queue of its own.
   */
  acknowledge?: 'given' | 'explicit';
  /**
   * Somebody else's leave to attach, instead of a token. It is good for one connection: after a loss, it ends. A function is asked for
   * another one each time; whatever it throws is tried again, except an `OutliveError` that is not passing.
   */
  ticket?: string | (() => Promise<string>);
}

export type AttachItem =
  | {
      type: 'connected';
      offset: number;
      role: Role;
      size: Size | undefined;
      /** What comes before this offset was printed before there was this connection. Not known to holders of tickets unless the server says it. */
      head: number | undefined;
      sizePolicy: ProcessInfo['sizePolicy'];
    }
  /** Attempts go on by themselves. */
  | { type: 'reconnecting'; why: string }
  | { type: 'output'; offset: number; stream: StreamName; bytes: Uint8Array }
  | Gap
  | Repaint
  | Resized
  /** Something that this client should know and that ends nothing, such as input that was refused. */
  | { type: 'notice'; code: string; message: string }
  | Exit;

const WINDOW_BYTES = 512 * 1024;
/** What was taken is told at the latest after this time; of much, at once. */
const ACKNOWLEDGE_AFTER_MS = 100;
/** Input per frame; the server takes 64 KiB. */
const INPUT_BYTES = 32 * 1024;
/** Input that waits for a connection. Who types more into nothing is told. */
const MOST_WAITING_BYTES = 256 * 1024;
/** A socket that has not opened by then never will. */
const OPEN_WITHIN_MS = 15_000;

/** Ends an attachment; whoever deleted the process, or made another use of the socket, meant it. */
const FATAL_CLOSES: Record<number, string> = { 1001: 'deleted', 1008: 'refused', 1009: 'message_too_large' };

/**
 * Being attached to a process, as a stream: `for await (const item of attachment)`. It ends after the exit or `close()`. When a
 * connection is lost, the next one goes on at the exact byte; nothing is given out twice.
 *
 * What has been given out counts as taken when the next item is asked for; the server sends only so much beyond that.
 */
export class Attachment implements AsyncIterable<AttachItem>, AsyncIterator<AttachItem, undefined> {
  readonly #http: Http;
  readonly #process: Process;
  readonly #options: AttachOptions;
  readonly #items = new Queue<AttachItem>();
  readonly #over = new AbortController();
  #socket: Socket | undefined;
  /** The server has said where it stands. What is typed before that waits, or it would overtake what waits already. */
  #isReady = false;
  #size: Size | undefined;
  /** The next byte to come. */
  #offset: number | undefined;
  /** The reader has nothing to which the next bytes could be added: only a repaint helps. */
  #needsScreen: boolean;
  /** Output or a repaint was handed on. */
  #hasBegun = false;
  /** Everything before it has been taken by the reader. */
  #taken = 0;
  #told = 0;
  #tellTimer: ReturnType<typeof setTimeout> | undefined;
  /** Given out last, and taken when the next one is asked for. */
  #inHand = 0;
  #waiting: Uint8Array<ArrayBuffer>[] = [];
  #waitingBytes = 0;
  /** Input sent on this connection, and what the server had taken before it. */
  #sent = 0;
  #inputOffset = 0;

  constructor(http: Http, process: Process, options: AttachOptions) {
    this.#http = http;
    this.#process = process;
    this.#options = options;
    this.#size = options.size;
    this.#offset = options.from;
    this.#needsScreen = options.screen === true;
    if (this.#needsScreen && (options.from !== undefined || options.tail !== undefined)) {
      throw new OutliveError('invalid_value', 'screen: true begins with a repaint: leave out from and tail');
    }
    void this.#stay();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<AttachItem, undefined>> {
    if (this.#options.acknowledge !== 'explicit') this.#take(this.#inHand);
    const result = await this.#items.next();
    const item = result.value;
    this.#inHand = item?.type === 'output' ? item.offset + item.bytes.length : 0;
    return result;
  }

  async return(): Promise<IteratorResult<AttachItem, undefined>> {
    this.close();
    return { done: true, value: undefined };
  }

  /** Everything before `offset` has been taken; for `acknowledge: 'explicit'`. */
  acknowledge(offset: number): void {
    this.#take(offset);
  }

  /** Types. Without a connection it waits for the next one. */
  write(data: string | Uint8Array): void {
    const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : data;
    for (let at = 0; at < bytes.length; at += INPUT_BYTES) this.#send(bytes.slice(at, at + INPUT_BYTES));
  }

  /** The window has another size. Whose size rules is decided by the terminal's `sizePolicy`. */
  resize(size: Size): void {
    this.#size = size;
    this.#say({ type: 'resize', ...size });
  }

  signal(signal: string | number): void {
    this.#say({ type: 'signal', signal });
  }

  /** Detaches. The process does not mind. */
  close(): void {
    this.#over.abort();
    this.#say({ type: 'close' });
    this.#socket?.close(1000);
    this.#items.end();
  }

  async #stay(): Promise<void> {
    const backoff = new Backoff();
    while (!this.#over.signal.aborted) {
      try {
        const end = await this.#connect(backoff);
        if (end === 'over') return this.#items.end();
        this.#items.push({ type: 'reconnecting', why: end });
      } catch (error) {
        if (this.#over.signal.aborted) return;
        const isPassing = error instanceof OutliveError && error.isPassing;
        if (!isPassing || this.#hasOneTicket) return this.#items.end(error);
        this.#items.push({ type: 'reconnecting', why: error.message });
      }
      if (this.#hasOneTicket) {
        return this.#items.end(new OutliveError('ticket_used', 'the connection is lost, and its ticket was good for one'));
      }
      await backoff.pause(this.#over.signal);
    }
  }

  get #hasOneTicket(): boolean {
    return typeof this.#options.ticket === 'string';
  }

  /** One connection, until its end: `over`, or why it was lost. */
  async #connect(backoff: Backoff): Promise<string> {
    const { role = 'writer', flow, windowBytes = WINDOW_BYTES, ticket } = this.#options;
    let info: ProcessInfo | undefined;
    let pass: string | undefined;
    if (ticket === undefined) {
      // A socket cannot say why it was refused: these can.
      info = await this.#process.info();
      if (this.#http.hasToken) pass = (await this.#process.ticket(role)).ticket;
    } else {
      pass = typeof ticket === 'string' ? ticket : await ticket().catch(lostTicket);
    }
    // Aborted in the meantime: nobody would close the socket any more.
    if (this.#over.signal.aborted) return 'over';
    const begin = this.#begin(info);
    const skippedFrom = begin.from === undefined ? this.#offset : undefined;
    const size = this.#size;
    const query = { role, flow, ...size, window: windowBytes, ticket: pass, ...begin };
    const path = `/v1/processes/${encodeURIComponent(this.#process.id)}/connect`;
    const socket = this.#http.socket(path, query);
    socket.binaryType = 'arraybuffer';
    this.#socket = socket;
    return new Promise((resolve, reject) => {
      let end: string | undefined;
      let repaint: Gathering | undefined;
      const opening = setTimeout(() => socket.close(), OPEN_WITHIN_MS);
      socket.onerror = () => {};
      socket.onmessage = ({ data }: { data: unknown }) => {
        if (typeof data !== 'string') {
          const bytes = new Uint8Array(data as ArrayBuffer);
          // With a ticket alone nothing could be asked before; only terminals are shared by one.
          if (!repaint) return this.#output(splitStream(bytes, info?.tty ?? true));
          repaint.add(bytes);
          if (this.#repainted(repaint)) repaint = undefined;
          return;
        }
        const frame = JSON.parse(data) as Control;
        if (frame.type === 'ready') {
          clearTimeout(opening);
          backoff.reset();
          this.#ready(frame, info);
          // It was changed while nobody could be told.
          if (this.#size && this.#size !== size) this.resize(this.#size);
          if (skippedFrom !== undefined && skippedFrom < frame.offset) {
            this.#items.push({ type: 'gap', from: skippedFrom, to: frame.offset });
          }
        } else if (frame.type === 'error') {
          this.#items.push({ type: 'notice', code: frame.code, message: frame.message });
        } else if (frame.type === 'repaint') {
          // If the connection is lost in the middle of it, the bytes behind it are worth nothing.
          this.#needsScreen = true;
          repaint = new Gathering(frame);
          if (this.#repainted(repaint)) repaint = undefined;
        } else {
          if (frame.type === 'gap') this.#offset = frame.to;
          if (frame.type === 'exit') end = 'over';
          this.#items.push(frame);
        }
      };
      socket.onclose = ({ code, reason }: { code: number; reason: string }) => {
        clearTimeout(opening);
        clearTimeout(this.#tellTimer);
        this.#tellTimer = undefined;
        this.#socket = undefined;
        this.#isReady = false;
        const fatal = FATAL_CLOSES[code];
        if (end === undefined && fatal) reject(new OutliveError(fatal, reason || `closed with ${code}`));
        else resolve(end ?? (reason || `the connection was lost (${code})`));
      };
    });
  }

  /** Where the next connection begins: at the exact byte, or when that cannot be, with a repaint. */
  #begin(info: ProcessInfo | undefined): { from?: number; tail?: number; screen?: boolean; scrollback?: number } {
    const { tail, screen, scrollback } = this.#options;
    const isTerminal = info?.tty ?? true;
    if (info && this.#offset !== undefined && this.#offset < info.outputStart) {
      // Who begins with bytes gets those that there are; who has some already could not add them.
      if (isTerminal && (screen ?? this.#hasBegun)) {
        this.#needsScreen = true;
      } else {
        this.#items.push({ type: 'gap', from: this.#offset, to: info.outputStart });
        this.#offset = info.outputStart;
      }
    }
    if (!isTerminal) this.#needsScreen = false;
    const lines = isTerminal && scrollback !== undefined ? { scrollback } : {};
    if (this.#needsScreen) {
      // Nothing is missing for who has seen nothing yet.
      if (!this.#hasBegun) this.#offset = undefined;
      return { screen: true, ...lines };
    }
    const rest = { ...lines, ...(screen === false && { screen }) };
    if (this.#offset !== undefined) return { from: this.#offset, ...rest };
    return tail === undefined ? rest : { tail, ...rest };
  }

  #ready(ready: Ready, info: ProcessInfo | undefined): void {
    const uncertain = this.#sent - (ready.inputOffset - this.#inputOffset);
    if (this.#sent > 0 && uncertain > 0) {
      // Typed twice would be worse than not at all.
      const message = `up to ${uncertain} bytes of input may not have arrived when the connection was lost`;
      this.#items.push({ type: 'notice', code: 'input_uncertain', message });
    }
    [this.#sent, this.#inputOffset] = [0, ready.inputOffset];
    this.#offset = ready.offset;
    this.#taken = Math.max(this.#taken, ready.offset);
    this.#told = ready.offset;
    const size = ready.cols && ready.rows ? { cols: ready.cols, rows: ready.rows } : undefined;
    const { offset, role, head = info?.outputEnd } = ready;
    this.#items.push({ type: 'connected', offset, role, size, head, sizePolicy: info?.sizePolicy });
    this.#isReady = true;
    const waiting = this.#waiting;
    [this.#waiting, this.#waitingBytes] = [[], 0];
    for (const bytes of waiting) this.#send(bytes);
  }

  #output({ stream, bytes }: { stream: StreamName; bytes: Uint8Array }): void {
    const offset = this.#offset ?? 0;
    this.#offset = offset + bytes.length;
    [this.#needsScreen, this.#hasBegun] = [false, true];
    this.#items.push({ type: 'output', offset, stream, bytes });
  }

  /** Hands a repaint on if it is whole. */
  #repainted({ whole }: Gathering): boolean {
    if (!whole) return false;
    this.#offset = whole.offset;
    [this.#needsScreen, this.#hasBegun] = [false, true];
    this.#items.push(whole);
    return true;
  }

  #take(offset: number): void {
    if (offset <= this.#taken) return;
    this.#taken = offset;
    const much = (this.#options.windowBytes ?? WINDOW_BYTES) / 4;
    if (this.#taken - this.#told >= much) this.#tell();
    else this.#tellTimer ??= setTimeout(() => this.#tell(), ACKNOWLEDGE_AFTER_MS);
  }

  #tell(): void {
    clearTimeout(this.#tellTimer);
    this.#tellTimer = undefined;
    if (this.#taken > this.#told && this.#say({ type: 'ack', offset: this.#taken })) this.#told = this.#taken;
  }

  #isOpen(): boolean {
    return this.#socket?.readyState === 1;
  }

  #send(bytes: Uint8Array<ArrayBuffer>): void {
    if (this.#isReady && this.#isOpen()) {
      this.#socket?.send(bytes);
      this.#sent += bytes.length;
    } else if (this.#waitingBytes + bytes.length <= MOST_WAITING_BYTES) {
      this.#waiting.push(bytes);
      this.#waitingBytes += bytes.length;
    } else {
      const message = 'there is no connection, and what was typed before waits for one already';
      this.#items.push({ type: 'notice', code: 'input_refused', message });
    }
  }

  #say(frame: object): boolean {
    if (!this.#isOpen()) return false;
    this.#socket?.send(JSON.stringify(frame));
    return true;
  }
}

/** Whoever gives out tickets could not be reached, unless they say otherwise. */
function lostTicket(error: unknown): never {
  if (error instanceof OutliveError) throw error;
  throw new OutliveError('connection_lost', `no ticket: ${error instanceof Error ? error.message : String(error)}`);
}
