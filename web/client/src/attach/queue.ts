/** Items for one reader who takes them at its own pace. */
export class Queue<T> {
  #items: T[] = [];
  #end: { error: unknown } | null | undefined;
  #waiting: (() => void) | undefined;

  push(item: T): void {
    this.#items.push(item);
    this.#wake();
  }

  /** Nothing comes any more, after what is there. With an error, the reader gets it. */
  end(error?: unknown): void {
    if (this.#end !== undefined) return;
    this.#end = error === undefined ? null : { error };
    this.#wake();
  }

  async next(): Promise<IteratorResult<T, undefined>> {
    for (;;) {
      if (this.#items.length > 0) return { done: false, value: this.#items.shift() as T };
      if (this.#end) {
        const { error } = this.#end;
        this.#end = null;
        throw error;
      }
      if (this.#end === null) return { done: true, value: undefined };
      await new Promise<void>((resolve) => (this.#waiting = resolve));
    }
  }

  #wake(): void {
    this.#waiting?.();
    this.#waiting = undefined;
  }
}
