import type { Outlive, SessionInfo } from '@outlive/client';

/** Sessions have no events of their own: they are looked at when the console did something with one, or is looked at again. */
export class Sessions {
  known: SessionInfo[] = [];
  readonly #outlive: Outlive;
  readonly #listeners = new Set<() => void>();

  constructor(outlive: Outlive) {
    this.#outlive = outlive;
  }

  async look(): Promise<void> {
    this.known = await this.#outlive.sessions();
    for (const listener of this.#listeners) listener();
  }

  get(id: string): SessionInfo | undefined {
    return this.known.find((session) => session.id === id);
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}
