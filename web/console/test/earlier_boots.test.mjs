import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OutliveError } from '@outlive/client';
import { EarlierBoots } from '../checked/state/earlier_boots.js';
import { Processes } from '../checked/state/processes.js';

const boot = (id, current = false) => ({ id, startedAtMs: 1, lastWriteAtMs: 2, current });
const stored = (id) => ({ id, status: 'lost', bootId: 'a', createdAtMs: 1 });

test('earlier boots are listed newest first', async () => {
  const outlive = { history: async () => ({ boots: [boot('a'), boot('b'), boot('c', true)] }) };
  const boots = new EarlierBoots(outlive, new Processes(outlive));
  await boots.load();
  assert.deepEqual(
    boots.all().map(({ id }) => id),
    ['b', 'a'],
  );
});

test('a token without the scope admin sees no earlier boots', async () => {
  const outlive = {
    history: async () => {
      throw new OutliveError('scope_insufficient', 'this needs the scope admin', 403);
    },
  };
  const boots = new EarlierBoots(outlive, new Processes(outlive));
  await boots.load();
  assert.deepEqual(boots.all(), []);
});

test('processes of a boot are found by id, and are not in the list', async () => {
  const outlive = { processes: async ({ boot }) => (boot === 'a' ? [stored('proc_1'), stored('proc_2')] : []) };
  const processes = new Processes(outlive);
  const boots = new EarlierBoots(outlive, processes);
  assert.deepEqual(await boots.loadProcesses('a'), ['proc_2', 'proc_1']);
  assert.equal(processes.get('proc_1').status, 'lost');
  assert.deepEqual(processes.all(), []);
  const removed = [];
  processes.onChange((changed) => removed.push(changed?.id));
  processes.remove('proc_1');
  assert.deepEqual([processes.get('proc_1'), removed], [undefined, ['proc_1']]);
});
