"""A register of checks, and what they work with."""

import asyncio
import json
import urllib.request

from agents.extensions.sandbox.cloudflare import CloudflareSandboxClient, CloudflareSandboxClientOptions

REGISTERED = []
PATIENCE_S = 20


def check(function):
    REGISTERED.append((f"python_{function.__name__}", function))
    return function


class Context:
    def __init__(self, base):
        self.base = base
        self.url = f"{base}/cloudflare"
        self.open = []

    async def session(self, **options):
        """A sandbox's session, as the client makes it, and started."""
        client = CloudflareSandboxClient(**options)
        session = await client.create(options=CloudflareSandboxClientOptions(worker_url=self.url))
        self.open.append((client, session))
        await session.start()
        return session

    def native(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, method=method)
        if data is not None:
            request.add_header("content-type", "application/json")
        with urllib.request.urlopen(request, timeout=PATIENCE_S + 5) as response:
            return json.loads(response.read() or b"null")

    async def clean_up(self):
        for client, session in self.open:
            try:
                await asyncio.wait_for(client.delete(session), 10)
            except Exception:
                pass  # Nothing depends on it.
