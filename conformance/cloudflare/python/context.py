"""The context of a check: the bridge's client, and outlive's native API."""

import asyncio

from agents.extensions.sandbox.cloudflare import CloudflareSandboxClient, CloudflareSandboxClientOptions

from runner import request


class Context:
    def __init__(self, base):
        self.base = base
        self.url = f"{base}/cloudflare"
        self.open = []

    async def session(self, **options):
        """Creates a sandbox with the client and starts its session."""
        client = CloudflareSandboxClient(**options)
        session = await client.create(options=CloudflareSandboxClientOptions(worker_url=self.url))
        self.open.append((client, session))
        await session.start()
        return session

    def native(self, method, path, body=None):
        return request(method, self.base + path, body)

    async def clean_up(self):
        for client, session in self.open:
            try:
                await asyncio.wait_for(client.delete(session), 10)
            except Exception:
                pass  # Nothing depends on it.
