// Streams on which nothing happens.

import assert from 'node:assert/strict';
import { Gate } from '../../_shared/pace.mjs';
import { early } from '../early.mjs';
import { STATELESS, open } from '../support.mjs';

const COMMENT = /(^|\n):\n\n/;

/** Each of these programs says nothing until its reader has seen a sign of life. */
async function listen(t) {
  const [gate, bridgeGate, socketGate] = [1, 2, 3].map(() => new Gate(t.atEnd));
  const line = ({ wait }) => `${wait}; echo woke`;
  const body = (passed) => ({ command: line(passed), sessionId: STATELESS });
  const over = (passed) => async ({ response }) => {
    let text = '';
    for await (const chunk of response) {
      text += chunk;
      if (COMMENT.test(text)) passed.letPass();
    }
    return text;
  };
  const streamed = open(`${t.url}/api/execute/stream`, { body: body(gate) }).then(over(gate));
  const bridged = open(`${t.url}/v1/sandbox/abc/exec`, { body: { argv: ['sh', '-c', line(bridgeGate)] } }).then(over(bridgeGate));
  const multiplexed = (async () => {
    const { say, frames, closed } = await t.socket(`${t.ws}/ws`);
    const until = (found) => Promise.race([closed, new Promise((resolve) => {
      const timer = setInterval(() => frames.some(found) && (clearInterval(timer), resolve()), 50);
    })]);
    say({ type: 'request', id: 'r', method: 'POST', path: '/api/execute/stream', body: body(socketGate) });
    await until(({ type, data }) => type === 'stream' && data === '');
    socketGate.letPass();
    await until(({ done }) => done);
    return frames;
  })();
  return Promise.all([streamed, bridged, multiplexed]);
}

// cloudflare/sandbox-sdk#101: a silent stream was cut, and its reader waited for ever.
early('a_silent_stream_shows_signs_of_life_and_goes_on', async (t) => {
  const [streamed, bridged, frames] = await listen(t);
  for (const text of [streamed, bridged]) assert.match(text, COMMENT, 'a comment');
  assert.match(streamed, /"data":"woke\\n"[^]*"type":"complete"/);
  assert.match(bridged, /event: stdout\ndata: d29rZQo=\n\nevent: exit\ndata: \{"exit_code":0\}/);
  const data = frames.filter(({ type }) => type === 'stream').map((frame) => frame.data);
  assert.ok(data.includes(''), 'a sign of life over the socket');
  assert.ok(data.some((text) => text.includes('woke')));
});
