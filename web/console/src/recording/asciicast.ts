/** An event of a recording, `at` seconds after its start. */
export type CastEvent =
  | { at: number; kind: 'output'; data: string }
  | { at: number; kind: 'resize'; cols: number; rows: number }
  /** Output is missing here; the server writes a marker event. */
  | { at: number; kind: 'gap'; data: string };

export interface Cast {
  cols: number;
  rows: number;
  events: CastEvent[];
}

/** Parses an asciicast of version 2. Unknown events are ignored, as the format requires. */
export function parseCast(text: string): Cast {
  const lines = text.split('\n');
  const header = JSON.parse(lines[0] ?? '') as { version?: number; width?: number; height?: number };
  if (header.version !== 2) throw new Error(`unsupported asciicast version ${header.version ?? '?'}; expected 2`);
  const events: CastEvent[] = [];
  for (const line of lines.slice(1)) {
    if (line.trim() === '') continue;
    const event = parseEvent(line);
    if (event) events.push(event);
  }
  return { cols: header.width ?? 80, rows: header.height ?? 24, events };
}

/** Shortens pauses to at most `maxSeconds`. */
export function shortenPauses(events: CastEvent[], maxSeconds: number): CastEvent[] {
  let removed = 0;
  let previous = 0;
  return events.map((event) => {
    removed += Math.max(0, event.at - previous - maxSeconds);
    previous = event.at;
    return { ...event, at: event.at - removed };
  });
}

function parseEvent(line: string): CastEvent | undefined {
  let parsed: unknown;
  try {
    parsed = JSON.parse(line);
  } catch {
    // The last line of a truncated recording.
    return undefined;
  }
  const [at, kind, data] = parsed as [number, string, string];
  if (typeof at !== 'number' || typeof data !== 'string') return undefined;
  if (kind === 'o') return { at, kind: 'output', data };
  if (kind === 'm') return { at, kind: 'gap', data };
  const size = kind === 'r' ? /^(\d+)x(\d+)$/.exec(data) : null;
  return size ? { at, kind: 'resize', cols: Number(size[1]), rows: Number(size[2]) } : undefined;
}
