export interface Disposable {
  dispose(): void;
}

export class Listeners<T> {
  readonly #listeners = new Set<(value: T) => void>();

  add(listener: (value: T) => void): Disposable {
    // Somebody may add the same function twice, and dispose of one.
    const own = (value: T) => listener(value);
    this.#listeners.add(own);
    return { dispose: () => this.#listeners.delete(own) };
  }

  tell(value: T): void {
    for (const listener of [...this.#listeners]) listener(value);
  }
}
