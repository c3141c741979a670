"""Sends generated requests to a live server and checks the responses against its OpenAPI document.

The server must be fresh and must not require a token. Prints a line per operation, then `N passed, M failed`.
"""

import argparse
import sys
from collections import defaultdict
from pathlib import Path

import requests
import schemathesis
from schemathesis.engine import Status, events, from_schema

import harmless
from fixtures import SPECS, Fixtures

HERE = Path(__file__).parent
MAX_SHOWN_FAILURES = 5
# schemathesis reuses ids from responses, and would hardly ever request an unknown one.
UNKNOWN_ID = "proc_unknown"


def refuse_harmful_requests():
    """Installs the check below every sender of requests, this script and schemathesis."""
    send = requests.adapters.HTTPAdapter.send

    def checked_send(self, request, **kwargs):
        harmless.refuse_harmful(request)
        return send(self, request, **kwargs)

    requests.adapters.HTTPAdapter.send = checked_send


def name_existing_process(case, fixtures):
    """Makes most requests about a process name an existing one."""
    parameters = case.path_parameters
    if not parameters or not isinstance(parameters.get("id"), str):
        return
    kind = harmless.choose([*SPECS, None, UNKNOWN_ID], [parameters, case.query, str(case.body)])
    if waits_long(case):
        # A long wait is harmless for a process that has exited.
        kind = "exited"
    if kind is not None:
        case.path_parameters = parameters | {"id": UNKNOWN_ID if kind == UNKNOWN_ID else fixtures.id_of(kind)}


def waits_long(case):
    timeout = case.body.get("timeoutMs") if isinstance(case.body, dict) else None
    # A wait for a process ends with the process. A wait for a generated port would never end.
    is_process_wait = case.operation.path.endswith("/{id}/wait")
    return is_process_wait and harmless.is_number(timeout) and timeout > harmless.HUGE_MS


def install_hooks(fixtures):
    @schemathesis.hook
    def before_call(context, case, kwargs):
        path = case.operation.path
        name_existing_process(case, fixtures)
        case.query = harmless.tame_query(path, case.query)
        if path in harmless.START_PATHS:
            case.body = harmless.tame_command(case.body)
        elif path.endswith("/wait") and isinstance(case.body, dict) and not waits_long(case):
            case.body = case.body | {"timeoutMs": harmless.limited(case.body.get("timeoutMs"))}

    @schemathesis.hook
    def after_call(context, case, response):
        if case.operation.path in fixtures.limits and response.status_code == 200 and case.method == "POST":
            fixtures.restore_limits()


class Report:
    def __init__(self, operations):
        self.operations = operations
        self.requests = defaultdict(int)
        self.failures = defaultdict(dict)
        self.seen = set()

    def scenario(self, event):
        if event.status == Status.SKIP:
            return
        recorder = event.recorder
        self.seen.add(recorder.label)
        self.requests[recorder.label] += len(recorder.cases)
        for case_id, checks in recorder.checks.items():
            for check in checks:
                if check.status == Status.FAILURE:
                    failure = check.failure_info.failure
                    example = check.failure_info.code_sample
                    title = f"{check.name}: {failure.title}"
                    self.failures[recorder.label].setdefault(title, f"{failure.message}\n{example}")

    def error(self, event):
        self.failures[event.label].setdefault("error", f"{type(event.value).__name__}: {event.value}")

    def print(self):
        failed = 0
        for label in self.operations:
            failures = dict(self.failures.get(label, {}))
            if label not in self.seen:
                failures["not reached"] = "the time limit ended the run before, or no request could be generated"
            print(f"{'FAIL' if failures else 'ok'} {label} ({self.requests[label]} requests)")
            for title, text in list(failures.items())[:MAX_SHOWN_FAILURES]:
                print(f"    {title}")
                print("".join(f"        {line}\n" for line in str(text).splitlines()), end="")
            failed += bool(failures)
        # Failures that belong to no operation.
        for label in self.failures.keys() - set(self.operations):
            print(f"FAIL {label}: {self.failures[label]}")
            failed += 1
        print(f"{len(self.operations) - failed} passed, {failed} failed", flush=True)
        return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-url", required=True)
    base_url = parser.parse_args().base_url.rstrip("/")

    refuse_harmful_requests()
    install_hooks(Fixtures(base_url))
    config = schemathesis.Config.from_path(HERE / "schemathesis.toml")
    print(f"schemathesis {schemathesis.__version__}, seed {config.seed}")
    schema = schemathesis.openapi.from_url(f"{base_url}/v1/openapi.json", config=config)
    operations = [found.ok().label for found in schema.get_all_operations()]
    report = Report(operations)
    for event in from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished):
            report.scenario(event)
        elif isinstance(event, events.NonFatalError):
            report.error(event)
        elif isinstance(event, events.FatalError):
            raise event.exception
        elif isinstance(event, events.EngineFinished):
            print(f"{event.running_time:.0f} s, {sum(report.requests.values())} requests, {event.stop_reason.value}")
    return 1 if report.print() else 0


if __name__ == "__main__":
    sys.exit(main())
