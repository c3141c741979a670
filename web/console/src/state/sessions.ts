import type { Outlive, SessionEvent, SessionInfo } from '@outlive/client';

type Listener = (event: SessionEvent | undefined) => void;

/** All sessions, kept up to date by the server's events. */
export class Sessions {
  readonly #outlive: Outlive;
  readonly #byId = new Map<string, SessionInfo>();
  readonly #listeners = new Set<Listener>();

  constructor(outlive: Outlive) {
    this.#outlive = outlive;
  }

  /** Oldest first. */
  all(): SessionInfo[] {
    return [...this.#byId.values()].sort((one, other) => one.createdAtMs - other.createdAtMs);
  }

  get(id: string): SessionInfo | undefined {
    return this.#byId.get(id);
  }

  /** Reads the whole list. */
  async load(): Promise<void> {
    const list = await this.#outlive.sessions();
    this.#byId.clear();
    for (const session of list) this.#byId.set(session.id, session);
    this.#notify(undefined);
  }

  /** Adds a session that was just created, whose event may arrive after the response. */
  add(session: SessionInfo): void {
    if (this.#byId.has(session.id)) return;
    this.#byId.set(session.id, session);
    this.#notify(undefined);
  }

  apply(event: SessionEvent): void {
    if (event.type === 'session.deleted') this.#byId.delete(event.session.id);
    else this.#byId.set(event.session.id, event.session);
    this.#notify(event);
  }

  /** Calls `listener` with each event, or `undefined` if any session may have changed. Returns a function to stop. */
  onChange(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #notify(event: SessionEvent | undefined): void {
    for (const listener of this.#listeners) listener(event);
  }
}
