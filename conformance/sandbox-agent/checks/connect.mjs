// How the SDK connects.

import assert from 'node:assert/strict';
import { SandboxAgent } from 'sandbox-agent';
import { TIMEOUT_MS } from '../../_shared/expect.mjs';
import { check } from '../../_shared/runner.mjs';

check('connect_passes_the_health_gate', async (t) => {
  // The SDK's defaults: global fetch, and every call waits for a good health response.
  const { baseUrl, token, signal } = t;
  const agent = await SandboxAgent.connect({ baseUrl, token, signal, waitForHealth: { timeoutMs: TIMEOUT_MS } });
  assert.ok(Array.isArray((await agent.listProcesses()).processes));
  assert.equal((await agent.getHealth()).status, 'ok');
  await agent.dispose();
});

check('connect_accepts_a_base_url_with_a_slash', async (t) => {
  const agent = await SandboxAgent.connect({ baseUrl: `${t.baseUrl}/`, token: t.token, signal: t.signal });
  assert.ok(Array.isArray((await agent.listProcesses()).processes));
  await agent.dispose();
});
