export interface ServerEvent {
  event: string;
  id: string | undefined;
  data: string;
}

/** Server-sent events out of a body, as they come. */
export async function* serverEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  const decoder = new TextDecoder();
  let rest = '';
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += decoder.decode(value, { stream: true });
      // The last part is not whole yet.
      const blocks = rest.split('\n\n');
      rest = blocks.pop() ?? '';
      for (const block of blocks) {
        const event = parse(block);
        if (event) yield event;
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

function parse(block: string): ServerEvent | undefined {
  const found: ServerEvent = { event: 'message', id: undefined, data: '' };
  let hasData = false;
  for (const line of block.split('\n')) {
    const colon = line.indexOf(':');
    if (colon <= 0) continue;
    const value = line.slice(colon + 1).replace(/^ /, '');
    switch (line.slice(0, colon)) {
      case 'event':
        found.event = value;
        break;
      case 'id':
        found.id = value;
        break;
      case 'data':
        found.data += hasData ? `\n${value}` : value;
        hasData = true;
    }
  }
  return hasData ? found : undefined;
}
