// Reproducible random numbers (mulberry32).

export class Random {
  constructor(seed) {
    this.state = seed >>> 0;
  }

  /** In [0, 1). */
  next() {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let t = this.state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }

  below(n) {
    return Math.floor(this.next() * n);
  }

  /** `count` different numbers in 0..=last, ascending, including those of `required`. */
  ascending(count, last, required = []) {
    const chosen = new Set(required.filter((n) => n <= last));
    while (chosen.size < Math.min(count, last + 1)) chosen.add(this.below(last + 1));
    return [...chosen].sort((a, b) => a - b);
  }
}
