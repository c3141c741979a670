// The recorded streams.

import { readdirSync, readFileSync } from 'node:fs';

const DIRECTORY = new URL('streams/', import.meta.url);

export function streams(only = []) {
  const names = readdirSync(DIRECTORY)
    .filter((name) => name.endsWith('.json'))
    .map((name) => name.slice(0, -'.json'.length));
  const unknown = only.filter((name) => !names.includes(name));
  if (unknown.length > 0) throw new Error(`unknown stream ${unknown.join(', ')}; known are ${names.join(', ')}`);
  return names.filter((name) => only.length === 0 || only.includes(name)).map(load);
}

function load(name) {
  const metadata = JSON.parse(readFileSync(new URL(`${name}.json`, DIRECTORY), 'utf8'));
  return { name, bytes: readFileSync(new URL(`${name}.bin`, DIRECTORY)), ...metadata };
}
