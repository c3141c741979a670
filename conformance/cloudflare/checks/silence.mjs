// Streams without output.

import assert from 'node:assert/strict';
import { Gate } from '../../_shared/gate.mjs';
import { checkConcurrently } from '../concurrent.mjs';
import { STATELESS, open } from '../support.mjs';

const COMMENT = /(^|\n):\n\n/;

/** Each of these programs prints nothing until its reader has received a keepalive. */
async function readSilentStreams(t) {
  const [gate, bridgeGate, socketGate] = [1, 2, 3].map(() => new Gate(t.cleanUpSteps));
  const line = ({ waitCommand }) => `${waitCommand}; echo woke`;
  const body = (gate) => ({ command: line(gate), sessionId: STATELESS });
  const readAndRelease = (gate) => async ({ response }) => {
    let text = '';
    for await (const chunk of response) {
      text += chunk;
      if (COMMENT.test(text)) gate.release();
    }
    return text;
  };
  const streamed = open(`${t.url}/api/execute/stream`, { body: body(gate) }).then(readAndRelease(gate));
  const bridged = open(`${t.url}/v1/sandbox/abc/exec`, { body: { argv: ['sh', '-c', line(bridgeGate)] } }).then(readAndRelease(bridgeGate));
  const multiplexed = (async () => {
    const { send, frames, closed } = await t.socket(`${t.ws}/ws`);
    const waitForFrameWhere = (found) => Promise.race([closed, new Promise((resolve) => {
      const timer = setInterval(() => frames.some(found) && (clearInterval(timer), resolve()), 50);
    })]);
    send({ type: 'request', id: 'r', method: 'POST', path: '/api/execute/stream', body: body(socketGate) });
    await waitForFrameWhere(({ type, data }) => type === 'stream' && data === '');
    socketGate.release();
    await waitForFrameWhere(({ done }) => done);
    return frames;
  })();
  return Promise.all([streamed, bridged, multiplexed]);
}

// Regression (cloudflare/sandbox-sdk#101): a proxy closes a silent stream and its reader waits forever.
checkConcurrently('silent_stream_sends_keepalives_and_stays_open', async (t) => {
  const [streamed, bridged, frames] = await readSilentStreams(t);
  for (const text of [streamed, bridged]) assert.match(text, COMMENT, 'a comment');
  assert.match(streamed, /"data":"woke\\n"[^]*"type":"complete"/);
  assert.match(bridged, /event: stdout\ndata: d29rZQo=\n\nevent: exit\ndata: \{"exit_code":0\}/);
  const data = frames.filter(({ type }) => type === 'stream').map((frame) => frame.data);
  assert.ok(data.includes(''), 'a keepalive over the socket');
  assert.ok(data.some((text) => text.includes('woke')));
});
