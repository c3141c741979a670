"""Processes that made-up requests are pointed at, so that not every answer is a 404.

Only processes of our own are ever named: the server has to be a fresh one.
"""

import requests

TIMEOUT = 10
# They end by themselves even if we are killed.
LIVES_MS = 120_000
SPECS = {
    "pipes": {"command": "cat", "args": []},
    "terminal": {"command": "cat", "args": [], "tty": True},
    "exited": {"command": "echo", "args": ["done"]},
    "reserved": {"command": "true", "start": False},
}
WANTED = {"pipes": "running", "terminal": "running", "exited": "exited", "reserved": "created"}


class Fixtures:
    def __init__(self, base_url):
        self.base_url = base_url
        self.ids = {}
        self.limits = {path: self.call("GET", path).json() for path in ("/v1/processes/config", "/v1/config")}
        if self.call("GET", "/v1/processes?all=true").json()["processes"]:
            raise SystemExit("the server has processes already; this needs a fresh one")

    def call(self, method, path, **more):
        return requests.request(method, self.base_url + path, timeout=TIMEOUT, **more)

    def id_of(self, kind):
        """The id of a process in this state; made again when something has ended or deleted it."""
        known = self.ids.get(kind)
        if known is None or self.status(known) != WANTED[kind]:
            self.ids[kind] = known = self.make(kind)
        return known

    def status(self, known):
        answer = self.call("GET", f"/v1/processes/{known}")
        return answer.json()["status"] if answer.ok else None

    def make(self, kind):
        answer = self.call("POST", "/v1/processes", json=SPECS[kind] | {"timeoutMs": LIVES_MS})
        answer.raise_for_status()
        made = answer.json()["id"]
        if WANTED[kind] == "exited":
            self.call("POST", f"/v1/processes/{made}/wait", json={"for": "exit", "timeoutMs": 5000})
        return made

    def restore_limits(self):
        """Made-up limits must not decide the requests that follow."""
        for path, limits in self.limits.items():
            self.call("POST", path, json=limits).raise_for_status()
