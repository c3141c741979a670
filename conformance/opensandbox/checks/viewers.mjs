// Viewers.

import assert from 'node:assert/strict';
import { check } from '../../_shared/runner.mjs';

check('viewers_receive_all_output_with_offsets', async (t) => {
  const { id, socket } = await t.shell();
  const viewers = await Promise.all([1, 2, 3].map(() => t.connect(id, '?mode=viewer')));
  assert.equal(viewers[0].frames.find(({ type }) => type === 'connected').role, 'viewer');
  socket.type('echo sh""ared; exit 6\n');
  await socket.waitForFrame('exit');
  for (const viewer of viewers) {
    assert.equal((await viewer.waitForFrame('exit')).exit_code, 6);
    assert.equal((await viewer.waitForClose()).code, 1000);
    const frames = viewer.frames.filter(({ bytes }) => bytes);
    assert.ok(frames.every(({ channel }) => channel === 3));
    let at = 0;
    for (const { offset, bytes } of frames) {
      assert.equal(offset, at);
      at += bytes.length;
    }
    assert.equal(viewer.printed(), socket.printed());
  }
});

check('viewers_cannot_type', async (t) => {
  const { id, socket } = await t.shell();
  const viewer = await t.connect(id, '?mode=viewer&since=99999');
  viewer.send({ type: 'ping' });
  await viewer.waitForFrame('pong');
  viewer.type('echo ne""ver\n');
  viewer.send({ type: 'resize', cols: 10, rows: 10 });
  viewer.send({ type: 'signal', signal: 'SIGKILL' });
  viewer.send({ type: 'stdin', data: 'x' });
  await viewer.waitUntil('four refusals', () => viewer.frames.filter(({ code }) => code === 'READ_ONLY').length === 4);
  viewer.send({ type: 'stdin', data: 'x' });
  await viewer.waitForClose();
  socket.type('stty size; echo af""ter\n');
  await socket.waitFor('after');
  assert.match(socket.printed(), /24 80\r\nafter/);
  assert.ok(!socket.printed().includes('never'));
});

check('viewers_need_a_running_shell', async (t) => {
  const refusal = await t.refusedSocket(`/pty/${await t.pty()}/ws?mode=viewer`);
  assert.deepEqual([refusal.status, refusal.json.code], [409, 'VIEWER_REQUIRES_RUNNING_SESSION']);
});

check('viewers_stay_connected_during_a_takeover', async (t) => {
  const { id, socket } = await t.shell();
  const viewer = await t.connect(id, '?mode=viewer');
  const second = await t.connect(id, '?takeover=1');
  await socket.waitForClose();
  second.type('echo go""es on\n');
  await viewer.waitFor('goes on');
});
