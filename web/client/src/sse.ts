export interface ServerEvent {
  event: string;
  id: string | undefined;
  data: string;
}

/** Parses a response body as server-sent events. */
export async function* serverEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  const decoder = new TextDecoder();
  let buffer = '';
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      buffer += decoder.decode(value, { stream: true });
      // The last block is incomplete.
      const blocks = buffer.split('\n\n');
      buffer = blocks.pop() ?? '';
      for (const block of blocks) {
        const event = parseEvent(block);
        if (event) yield event;
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

function parseEvent(block: string): ServerEvent | undefined {
  const parsed: ServerEvent = { event: 'message', id: undefined, data: '' };
  let hasData = false;
  for (const line of block.split('\n')) {
    const colon = line.indexOf(':');
    if (colon <= 0) continue;
    const value = line.slice(colon + 1).replace(/^ /, '');
    switch (line.slice(0, colon)) {
      case 'event':
        parsed.event = value;
        break;
      case 'id':
        parsed.id = value;
        break;
      case 'data':
        parsed.data += hasData ? `\n${value}` : value;
        hasData = true;
    }
  }
  return hasData ? parsed : undefined;
}
