"""Drives a live server with the official Python client of the bridge. Called by run.mjs; the last line is `python: N passed, M failed`."""

import argparse
import asyncio
import sys
import traceback

import checks
from frame import REGISTERED, Context

DEADLINE_S = 60


async def run_one(base, function):
    context = Context(base)
    try:
        await asyncio.wait_for(function(context), DEADLINE_S)
    finally:
        await context.clean_up()


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--base-url", required=True)
    arguments.add_argument("--only", action="append", default=[])
    given = arguments.parse_args()
    assert checks
    passed = failed = 0
    for name, function in REGISTERED:
        if given.only and name not in given.only:
            continue
        try:
            asyncio.run(run_one(given.base_url.rstrip("/"), function))
            passed += 1
            print(f"ok {name}")
        except BaseException as error:
            failed += 1
            reason = " ".join(str(error).split())[:300] or traceback.format_exc().splitlines()[-1]
            where = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith("checks.py")][:1]
            line = f" (line {where[0].lineno})" if where else ""
            print(f"FAIL {name}: {type(error).__name__}: {reason}{line}")
    print(f"python: {passed} passed, {failed} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
