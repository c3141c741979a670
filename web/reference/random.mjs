// Random numbers that a printed seed brings back (mulberry32).

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

  /** `count` different numbers of 0..=last, ascending, with `always` among them. */
  ascending(count, last, always = []) {
    const found = new Set(always.filter((n) => n <= last));
    while (found.size < Math.min(count, last + 1)) found.add(this.below(last + 1));
    return [...found].sort((a, b) => a - b);
  }
}
