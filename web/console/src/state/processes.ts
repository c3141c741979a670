import type { Outlive, ProcessEvent, ProcessInfo } from '@outlive/client';

type Listener = (changed: ProcessInfo | undefined) => void;

/** All processes, kept up to date by the server's events. */
export class Processes {
  readonly #outlive: Outlive;
  readonly #byId = new Map<string, ProcessInfo>();
  /** Processes that only the history knows, as far as they were requested. No event changes them. */
  readonly #storedById = new Map<string, ProcessInfo>();
  readonly #listeners = new Set<Listener>();
  /** The list has been read. */
  isLoaded = false;

  constructor(outlive: Outlive) {
    this.#outlive = outlive;
  }

  /** Reads the whole list. */
  async load(): Promise<void> {
    const list = await this.#outlive.processes();
    this.#byId.clear();
    for (const process of list) if (!process.ephemeral) this.#byId.set(process.id, process);
    this.isLoaded = true;
    this.#notify(undefined);
  }

  apply(event: ProcessEvent): void {
    if (event.type === 'process.deleted') this.remove(event.process.id);
    else this.#set(event.process);
  }

  get(id: string): ProcessInfo | undefined {
    return this.#byId.get(id) ?? this.#storedById.get(id);
  }

  /** Makes processes of the history known by id. `all` does not list them. */
  addStored(processes: ProcessInfo[]): void {
    for (const process of processes) this.#storedById.set(process.id, process);
  }

  /** Newest first, without those of the history. */
  all(): ProcessInfo[] {
    return [...this.#byId.values()].sort((one, other) => other.createdAtMs - one.createdAtMs);
  }

  /** Calls `listener` with the changed process, or `undefined` if all may have changed. Returns a function to stop. */
  onChange(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Applies the process info of a response, unless an event has already delivered a newer one. */
  update(process: ProcessInfo): void {
    const current = this.#byId.get(process.id);
    if (!current || isNewer(process, current)) this.#set(process);
  }

  remove(id: string): void {
    const process = this.get(id);
    const isRemoved = [this.#byId.delete(id), this.#storedById.delete(id)].includes(true);
    if (isRemoved) this.#notify(process);
  }

  #set(process: ProcessInfo): void {
    if (process.ephemeral) return;
    this.#byId.set(process.id, process);
    this.#notify(process);
  }

  #notify(changed: ProcessInfo | undefined): void {
    for (const listener of this.#listeners) listener(changed);
  }
}

const STATUS_ORDER = { created: 0, running: 1, exited: 2, lost: 2 };

/** Within one generation the status only advances; starting again begins a new generation. */
export function isNewer(one: ProcessInfo, other: ProcessInfo): boolean {
  if (one.generation !== other.generation) return one.generation > other.generation;
  return STATUS_ORDER[one.status] > STATUS_ORDER[other.status];
}
