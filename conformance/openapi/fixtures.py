"""Processes that generated requests name, so that not every response is a 404.

Requests name only processes of this run, so the server must be fresh.
"""

import requests

TIMEOUT = 10
# The processes exit by themselves even if this script is killed.
PROCESS_TIMEOUT_MS = 120_000
SPECS = {
    "pipes": {"command": "cat", "args": []},
    "terminal": {"command": "cat", "args": [], "tty": True},
    "exited": {"command": "echo", "args": ["done"]},
    "reserved": {"command": "true", "start": False},
}
EXPECTED_STATUS = {"pipes": "running", "terminal": "running", "exited": "exited", "reserved": "created"}


class Fixtures:
    def __init__(self, base_url):
        self.base_url = base_url
        self.ids = {}
        self.limits = {path: self.call("GET", path).json() for path in ("/v1/processes/config", "/v1/config")}
        if self.call("GET", "/v1/processes?all=true").json()["processes"]:
            raise SystemExit("the server already has processes; start a fresh one")

    def call(self, method, path, **options):
        return requests.request(method, self.base_url + path, timeout=TIMEOUT, **options)

    def id_of(self, kind):
        """The id of a process in this state. It is created again if a request has ended or deleted it."""
        id = self.ids.get(kind)
        if id is None or self.status(id) != EXPECTED_STATUS[kind]:
            self.ids[kind] = id = self.create(kind)
        return id

    def status(self, id):
        response = self.call("GET", f"/v1/processes/{id}")
        return response.json()["status"] if response.ok else None

    def create(self, kind):
        response = self.call("POST", "/v1/processes", json=SPECS[kind] | {"timeoutMs": PROCESS_TIMEOUT_MS})
        response.raise_for_status()
        id = response.json()["id"]
        if EXPECTED_STATUS[kind] == "exited":
            self.call("POST", f"/v1/processes/{id}/wait", json={"for": "exit", "timeoutMs": 5000})
        return id

    def restore_limits(self):
        """Generated limits must not affect the requests that follow."""
        for path, limits in self.limits.items():
            self.call("POST", path, json=limits).raise_for_status()
