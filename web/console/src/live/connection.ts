/** Whether the server answers, as every request that is made anyway finds out. */
export class Connection {
  isUp = true;
  readonly #listeners = new Set<() => void>();

  readonly fetch: typeof fetch = async (input, init) => {
    try {
      const response = await globalThis.fetch(input, init);
      this.#found(true);
      return response;
    } catch (error) {
      if (!init?.signal?.aborted) this.#found(false);
      throw error;
    }
  };

  onChange(listener: () => void): void {
    this.#listeners.add(listener);
  }

  #found(isUp: boolean): void {
    if (isUp === this.isUp) return;
    this.isUp = isUp;
    for (const listener of this.#listeners) listener();
  }
}
