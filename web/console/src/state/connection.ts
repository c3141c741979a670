/** Whether the server responds, derived from the requests that the console makes anyway. */
export class Connection {
  isUp = true;
  readonly #listeners = new Set<() => void>();

  readonly fetch: typeof fetch = async (input, init) => {
    try {
      const response = await globalThis.fetch(input, init);
      this.#setUp(true);
      return response;
    } catch (error) {
      if (!init?.signal?.aborted) this.#setUp(false);
      throw error;
    }
  };

  onChange(listener: () => void): void {
    this.#listeners.add(listener);
  }

  #setUp(isUp: boolean): void {
    if (isUp === this.isUp) return;
    this.isUp = isUp;
    for (const listener of this.#listeners) listener();
  }
}
