#!/usr/bin/env python3
"""Records streams: record.py [NAME]...

Programs run in their own namespaces (Linux, root), so that recordings contain no details of the machine: the host is
called garden, and the only processes are those of the recording. Every recording differs from the previous one.
"""

import json
import os
import pathlib
import sys

import garden
import noise
import programs
import shells
import wide
import written

STREAMS = pathlib.Path(__file__).resolve().parent.parent / "streams"
MIN_BYTES = 2_000
MAX_BYTES = 200_000
ALL = {**programs.RECORDINGS, **shells.RECORDINGS, **written.STREAMS, **wide.STREAMS, **noise.STREAMS}
IN_NAMESPACE = "OUTLIVE_RECORD_IN_NAMESPACE"


def main(names):
    for name in names or ALL:
        stream = ALL[name]()
        data = bytes(stream.bytes)
        assert MIN_BYTES <= len(data) <= MAX_BYTES, f"{name} has {len(data)} bytes"
        cols, rows = stream.initial_size
        metadata = {"cols": cols, "rows": rows, "resizes": stream.resizes, "note": stream.note}
        (STREAMS / f"{name}.bin").write_bytes(data)
        (STREAMS / f"{name}.json").write_text(json.dumps(metadata, indent=1, ensure_ascii=False) + "\n")
        print(f"{name}: {len(data)} bytes, {len(stream.resizes)} resizes", flush=True)


if __name__ == "__main__":
    if os.environ.get(IN_NAMESPACE) is None:
        # htop and top show this command line, so it must not contain a path of the machine.
        os.environ.update({IN_NAMESPACE: "yes", "PATH": garden.SETTINGS["PATH"]})
        os.chdir(pathlib.Path(__file__).parent)
        command = ["unshare", "--pid", "--uts", "--mount", "--net", "--fork", "--mount-proc", "python3", "record.py"]
        os.execvp(command[0], [*command, *sys.argv[1:]])
    garden.enter()
    main(sys.argv[1:])
