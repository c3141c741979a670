// Any number who look on.

import assert from 'node:assert/strict';
import { check } from '../../_shared/frame.mjs';

check('viewers_see_everything_with_offsets', async (t) => {
  const { id, socket } = await t.shell();
  const viewers = await Promise.all([1, 2, 3].map(() => t.connect(id, '?mode=viewer')));
  assert.equal(viewers[0].frames.find(({ type }) => type === 'connected').role, 'viewer');
  socket.type('echo sh""ared; exit 6\n');
  await socket.text('exit');
  for (const viewer of viewers) {
    assert.equal((await viewer.text('exit')).exit_code, 6);
    assert.equal((await viewer.over()).code, 1000);
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

check('viewers_may_only_look', async (t) => {
  const { id, socket } = await t.shell();
  const viewer = await t.connect(id, '?mode=viewer&since=99999');
  viewer.send({ type: 'ping' });
  await viewer.text('pong');
  viewer.type('echo ne""ver\n');
  viewer.send({ type: 'resize', cols: 10, rows: 10 });
  viewer.send({ type: 'signal', signal: 'SIGKILL' });
  viewer.send({ type: 'stdin', data: 'x' });
  await viewer.when('four refusals', () => viewer.frames.filter(({ code }) => code === 'READ_ONLY').length === 4);
  viewer.send({ type: 'stdin', data: 'x' });
  await viewer.over();
  socket.type('stty size; echo af""ter\n');
  await socket.until('after');
  assert.match(socket.printed(), /24 80\r\nafter/);
  assert.ok(!socket.printed().includes('never'));
});

check('viewers_need_a_shell_that_runs', async (t) => {
  const refusal = await t.refusedSocket(`/pty/${await t.pty()}/ws?mode=viewer`);
  assert.deepEqual([refusal.status, refusal.json.code], [409, 'VIEWER_REQUIRES_RUNNING_SESSION']);
});

check('viewers_stay_when_another_takes_over', async (t) => {
  const { id, socket } = await t.shell();
  const viewer = await t.connect(id, '?mode=viewer');
  const second = await t.connect(id, '?takeover=1');
  await socket.over();
  second.type('echo go""es on\n');
  await viewer.until('goes on');
});
