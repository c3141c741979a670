/** One argument per line, as it is; an empty last line is none. */
export function readArgv(text: string): string[] {
  const lines = text.split('\n');
  while (lines.length > 0 && lines.at(-1) === '') lines.pop();
  return lines;
}

/** `NAME=value` per line; lines without a name are refused, so that a slip is not lost. */
export function readEnv(text: string): Record<string, string> {
  const found: Record<string, string> = {};
  for (const line of text.split('\n')) {
    if (line.trim() === '') continue;
    const equals = line.indexOf('=');
    if (equals < 1) throw new Error(`variables are NAME=value, one per line; this is not: ${line}`);
    found[line.slice(0, equals).trim()] = line.slice(equals + 1);
  }
  return found;
}
