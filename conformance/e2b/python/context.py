"""What checks work with: the SDK's sandbox, and outlive's own API."""

from e2b import Sandbox

from frame import PATIENCE_S, request

# Every command is a login shell: without a HOME of its own it would run the profile of whoever started the server.
ENVS = {"HOME": "/tmp"}


class Context:
    def __init__(self, base):
        self.base = base
        self.url = f"{base}/e2b"
        self.pids = set()

    def sandbox(self):
        return Sandbox.connect("any-id", debug=True, sandbox_url=self.url)

    def run(self, command, **options):
        options["envs"] = ENVS | options.get("envs", {})
        return self.sandbox().commands.run(command, **options)

    def background(self, command, **options):
        handle = self.run(command, **({"background": True, "timeout": 0} | options))
        self.pids.add(handle.pid)
        return handle

    def native(self, method, path, body=None):
        return request(method, self.base + path, body)

    def until_printed(self, pid, pattern):
        wait = {"for": "output", "pattern": pattern, "timeoutMs": PATIENCE_S * 1000, "from": 0}
        answer = self.native("POST", f"/v1/processes/pid:{pid}/wait", wait)
        assert answer["outcome"] == "matched", pattern

    def until_exited(self, pid):
        answer = self.native("POST", f"/v1/processes/pid:{pid}/wait", {"timeoutMs": PATIENCE_S * 1000})
        assert answer["outcome"] == "exited"

    def clean_up(self):
        for pid in self.pids:
            try:
                self.native("POST", f"/v1/processes/pid:{pid}/kill")
            except OSError:
                pass  # It has ended, or the server is what is broken.
