// Streams on which nothing happens.

import assert from 'node:assert/strict';
import { early } from '../early.mjs';
import { STATELESS, open } from '../support.mjs';

async function listen(t) {
  const body = { command: 'sleep 17; echo woke', sessionId: STATELESS };
  const over = async ({ response }) => {
    let text = '';
    for await (const chunk of response) text += chunk;
    return text;
  };
  const streamed = open(`${t.url}/api/execute/stream`, { body }).then(over);
  const bridged = open(`${t.url}/v1/sandbox/abc/exec`, { body: { argv: ['sh', '-c', 'sleep 17; echo woke'] } }).then(over);
  const multiplexed = (async () => {
    const { say, frames, closed } = await t.socket(`${t.ws}/ws`);
    say({ type: 'request', id: 'r', method: 'POST', path: '/api/execute/stream', body });
    await Promise.race([closed, new Promise((resolve) => {
      const timer = setInterval(() => frames.some(({ done }) => done) && (clearInterval(timer), resolve()), 50);
    })]);
    return frames;
  })();
  return Promise.all([streamed, bridged, multiplexed]);
}

// cloudflare/sandbox-sdk#101: a silent stream was cut, and its reader waited for ever.
early('a_silent_stream_shows_signs_of_life_and_goes_on', async (t) => {
  const [streamed, bridged, frames] = await listen(t);
  for (const text of [streamed, bridged]) assert.match(text, /(^|\n):\n\n/, 'a comment');
  assert.match(streamed, /"data":"woke\\n"[^]*"type":"complete"/);
  assert.match(bridged, /event: stdout\ndata: d29rZQo=\n\nevent: exit\ndata: \{"exit_code":0\}/);
  const data = frames.filter(({ type }) => type === 'stream').map((frame) => frame.data);
  assert.ok(data.includes(''), 'a sign of life over the socket');
  assert.ok(data.some((text) => text.includes('woke')));
});
