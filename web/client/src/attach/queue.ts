/** An unbounded queue with one asynchronous reader. */
export class Queue<T> {
  #items: T[] = [];
  /** `undefined`: open. `null`: ended. With an error: the reader gets it after the remaining items. */
  #end: { error: unknown } | null | undefined;
  #wakeReader: (() => void) | undefined;

  push(item: T): void {
    this.#items.push(item);
    this.#wake();
  }

  /** Ends the queue after the items it holds. The reader receives `error`, if given. */
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
      await new Promise<void>((resolve) => (this.#wakeReader = resolve));
    }
  }

  #wake(): void {
    this.#wakeReader?.();
    this.#wakeReader = undefined;
  }
}
