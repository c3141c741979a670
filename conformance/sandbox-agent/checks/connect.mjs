// How the SDK finds the server.

import assert from 'node:assert/strict';
import { SandboxAgent } from 'sandbox-agent';
import { PATIENCE_MS } from '../../_shared/facts.mjs';
import { check } from '../../_shared/frame.mjs';

check('connect_passes_the_health_gate', async (t) => {
  // The SDK's own defaults: global fetch, and every call waits until health says ok.
  const { baseUrl, token, signal } = t;
  const agent = await SandboxAgent.connect({ baseUrl, token, signal, waitForHealth: { timeoutMs: PATIENCE_MS } });
  assert.ok(Array.isArray((await agent.listProcesses()).processes));
  assert.equal((await agent.getHealth()).status, 'ok');
  await agent.dispose();
});

check('connect_takes_a_base_url_with_a_slash', async (t) => {
  const agent = await SandboxAgent.connect({ baseUrl: `${t.baseUrl}/`, token: t.token, signal: t.signal });
  assert.ok(Array.isArray((await agent.listProcesses()).processes));
  await agent.dispose();
});
