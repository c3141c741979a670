"""Drives a live server with the official Python SDK. Called by run.mjs; the last line is `python: N passed, M failed`."""

import argparse
import logging
import sys
import traceback

import checks
from frame import REGISTERED, Context, deadline


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--base-url", required=True)
    arguments.add_argument("--only", action="append", default=[])
    given = arguments.parse_args()
    assert checks
    # The SDK logs every refusal that a check provokes.
    logging.disable(logging.CRITICAL)
    passed = failed = 0
    for name, function in REGISTERED:
        if given.only and name not in given.only:
            continue
        context = Context(given.base_url.rstrip("/"))
        try:
            with deadline(60):
                function(context)
            passed += 1
            print(f"ok {name}")
        except BaseException as error:
            failed += 1
            reason = " ".join(str(error).split())[:300] or traceback.format_exc().splitlines()[-1]
            where = traceback.extract_tb(error.__traceback__)[1:2]
            line = f" (line {where[0].lineno})" if where else ""
            print(f"FAIL {name}: {type(error).__name__}: {reason}{line}")
        finally:
            context.clean_up()
    print(f"python: {passed} passed, {failed} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
