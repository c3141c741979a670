/** What happens in a recording, `at` seconds after its beginning. */
export type CastEvent =
  | { at: number; kind: 'output'; data: string }
  | { at: number; kind: 'resize'; cols: number; rows: number }
  /** Something is missing here. */
  | { at: number; kind: 'mark'; data: string };

export interface Cast {
  cols: number;
  rows: number;
  events: CastEvent[];
}

/** An asciicast of version 2. What is not known is left out, as the format wants it. */
export function parseCast(text: string): Cast {
  const lines = text.split('\n');
  const head = JSON.parse(lines[0] ?? '') as { version?: number; width?: number; height?: number };
  if (head.version !== 2) throw new Error(`this is an asciicast of version ${head.version ?? '?'}, not 2`);
  const events: CastEvent[] = [];
  for (const line of lines.slice(1)) {
    if (line.trim() === '') continue;
    const event = eventOf(line);
    if (event) events.push(event);
  }
  return { cols: head.width ?? 80, rows: head.height ?? 24, events };
}

/** No pause is longer than `most` seconds. */
export function shortenPauses(events: CastEvent[], most: number): CastEvent[] {
  let cut = 0;
  let before = 0;
  return events.map((event) => {
    cut += Math.max(0, event.at - before - most);
    before = event.at;
    return { ...event, at: event.at - cut };
  });
}

function eventOf(line: string): CastEvent | undefined {
  let parsed: unknown;
  try {
    parsed = JSON.parse(line);
  } catch {
    // The last line of a recording that was cut off.
    return undefined;
  }
  const [at, kind, data] = parsed as [number, string, string];
  if (typeof at !== 'number' || typeof data !== 'string') return undefined;
  if (kind === 'o') return { at, kind: 'output', data };
  if (kind === 'm') return { at, kind: 'mark', data };
  const size = kind === 'r' ? /^(\d+)x(\d+)$/.exec(data) : null;
  return size ? { at, kind: 'resize', cols: Number(size[1]), rows: Number(size[2]) } : undefined;
}
