import { setText } from '../page/element.js';
import { age } from './words.js';

const ages = new Map<HTMLElement, number>();

/** Shows how long ago something was, and goes on counting while the element is in the page. */
export function showAge(element: HTMLElement, sinceMs: number): void {
  ages.set(element, sinceMs);
  setText(element, age(Date.now() - sinceMs));
}

setInterval(() => {
  const now = Date.now();
  for (const [element, sinceMs] of ages) {
    if (element.isConnected) setText(element, age(now - sinceMs));
    else ages.delete(element);
  }
}, 1000);
