// The recorded streams.

import { readdirSync, readFileSync } from 'node:fs';

const FOLDER = new URL('streams/', import.meta.url);

export function streams(only = []) {
  const names = readdirSync(FOLDER).filter((name) => name.endsWith('.json')).map((name) => name.slice(0, -'.json'.length));
  const unknown = only.filter((name) => !names.includes(name));
  if (unknown.length > 0) throw new Error(`there is no stream ${unknown.join(', ')}; there are ${names.join(', ')}`);
  return names.filter((name) => only.length === 0 || only.includes(name)).map(load);
}

function load(name) {
  const about = JSON.parse(readFileSync(new URL(`${name}.json`, FOLDER), 'utf8'));
  return { name, bytes: readFileSync(new URL(`${name}.bin`, FOLDER)), ...about };
}
