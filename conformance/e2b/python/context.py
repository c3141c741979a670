"""The context of a check: the SDK's sandbox, and outlive's native API."""

from e2b import Sandbox

from runner import TIMEOUT_S, request

# Every command is a login shell. With another HOME it would run the profile of the server's user.
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

    def wait_for_output(self, pid, pattern):
        wait = {"for": "output", "pattern": pattern, "timeoutMs": TIMEOUT_S * 1000, "from": 0}
        response = self.native("POST", f"/v1/processes/pid:{pid}/wait", wait)
        assert response["outcome"] == "matched", pattern

    def wait_for_exit(self, pid):
        response = self.native("POST", f"/v1/processes/pid:{pid}/wait", {"timeoutMs": TIMEOUT_S * 1000})
        assert response["outcome"] == "exited"

    def clean_up(self):
        for pid in self.pids:
            try:
                self.native("POST", f"/v1/processes/pid:{pid}/kill")
            except OSError:
                pass  # It has ended, or the server is what is broken.
