import { setText } from '../page/element.js';
import { formatAge } from './format.js';

const ages = new Map<HTMLElement, number>();

/** Shows the time since `sinceMs`, updated while the element is in the document. */
export function showAge(element: HTMLElement, sinceMs: number): void {
  ages.set(element, sinceMs);
  setText(element, formatAge(Date.now() - sinceMs));
}

setInterval(() => {
  const now = Date.now();
  for (const [element, sinceMs] of ages) {
    if (element.isConnected) setText(element, formatAge(now - sinceMs));
    else ages.delete(element);
  }
}, 1000);
