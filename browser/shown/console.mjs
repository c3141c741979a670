// The console with its terminals in reach.

import { openAt } from '../console.mjs';
import { keepTerminals } from './cells.mjs';

export function openShown(t, address, options = {}) {
  return openAt(t, address, { before: keepTerminals, ...options });
}

/** The same page by way of another address of the server, such as a cable's. */
export const addressBy = (server, base) => `${base}/ui${server.token ? `#token=${server.token}` : ''}`;
