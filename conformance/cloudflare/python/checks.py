"""Calls of the Python client, above all those that differ from the JavaScript client."""

import asyncio
import io
import uuid
from pathlib import Path

from runner import TIMEOUT_S, check


def fresh():
    return f"py-{uuid.uuid4().hex[:10]}"


@check
async def client_creates_runs_and_deletes(t):
    session = await t.session()
    result = await session.exec("echo out; echo err >&2; exit 3")
    assert (result.stdout, result.stderr, result.exit_code) == (b"out\n", b"err\n", 3), result
    assert await session.running() is True


@check
async def exec_passes_arguments_unchanged(t):
    session = await t.session()
    odd = ["a b", "it's", "$HOME", "`x`", "", "ü", "\\"]
    result = await session.exec("printf", "%s|", *odd, shell=False)
    assert result.stdout.decode() == "".join(f"{word}|" for word in odd), result


@check
async def exec_output_is_exact(t):
    session = await t.session()
    result = await session.exec(r"printf '\377\000\342'; sleep 0.2; printf '\202\254\360'")
    assert result.stdout == b"\xff\x00\xe2\x82\xac\xf0", result
    length = 20_000_000
    result = await session.exec(f"seq 1 {length} 2>/dev/null | head -c {length}")
    numbers = "".join(f"{n}\n" for n in range(1, 3_000_000))[:length].encode()
    assert result.stdout == numbers, len(result.stdout)


@check
async def exec_reports_missing_command_and_signal(t):
    session = await t.session()
    assert (await session.exec("no-such-command-here", shell=False)).exit_code == 127
    assert (await session.exec("kill -9 $$")).exit_code == 137


@check
async def exec_time_limit_responds_before_the_client_times_out(t):
    session = await t.session()
    # A client that timed out would raise. How long a shell takes to start depends on the machine.
    for seconds in (1, 4, 16):
        result = await session.exec("echo started; trap '' TERM; sleep 300", timeout=seconds)
        if result.stdout:
            break
    assert (result.exit_code, result.stdout) == (124, b"started\n"), result


@check
async def files_are_written_and_read(t):
    session = await t.session()
    path = Path(f"/workspace/{fresh()}/sub/file.bin")
    content = bytes(range(256)) * 500
    await session.write(path, io.BytesIO(content))
    assert (await session.read(path)).read() == content
    try:
        await session.read(path.with_name("nothing"))
        raise AssertionError("there was something")
    except Exception as error:
        assert "NotFound" in type(error).__name__, repr(error)
    await session.exec(f"rm -rf {path.parent.parent}")


@check
async def workspace_is_persisted_and_hydrated(t):
    session = await t.session()
    name = fresh()
    await session.exec(f"mkdir -p /workspace/{name}/sub; echo kept > /workspace/{name}/sub/file")
    archive = await session.persist_workspace()
    await session.exec(f"rm -rf /workspace/{name}")
    await session.hydrate_workspace(archive)
    result = await session.exec(f"cat /workspace/{name}/sub/file; rm -rf /workspace/{name}")
    assert result.stdout == b"kept\n", result


@check
async def terminal_interrupts_and_reports_the_exit_code(t):
    session = await t.session()
    # Printed by the foreground program: between two commands of a line an interrupt may reach neither.
    line = "sh -c 'echo on $(tty | cut -c1-8); exec sleep 300'"
    update = await session.pty_exec_start(line, tty=True, yield_time_s=0.5)
    number = update.process_id
    await printed(session, update, lambda output: b"on /dev/pts" in output)
    update = await session.pty_write_stdin(session_id=number, chars="\x03", yield_time_s=0.5)
    update = await session.pty_write_stdin(session_id=number, chars="exit 6\n", yield_time_s=20)
    assert update.exit_code == 6, update


@check
async def terminals_are_separate(t):
    session = await t.session()
    starts = [session.pty_exec_start(f"sleep 0.3; echo i am {n}.", tty=True, yield_time_s=0.5) for n in range(3)]
    for n, update in enumerate(await asyncio.gather(*starts)):
        # Once as the echoed input, and once as the output.
        output = await printed(session, update, lambda output: output.count(f"i am {n}.".encode()) >= 2)
        assert not any(f"i am {other}.".encode() in output for other in range(3) if other != n), output


async def printed(session, update, enough):
    """Returns a terminal's output once `enough` accepts it. A shell may be slow to start."""
    output = update.output
    for _ in range(TIMEOUT_S):
        if enough(output):
            return output
        update = await session.pty_write_stdin(session_id=update.process_id, chars="", yield_time_s=1)
        output += update.output
    raise AssertionError(output)


@check
async def exec_runs_32_at_once(t):
    session = await t.session()
    results = await asyncio.gather(*(session.exec(f"sleep 0.2; echo {n}") for n in range(32)))
    assert [result.stdout for result in results] == [f"{n}\n".encode() for n in range(32)]


@check
async def execs_leave_no_records(t):
    session = await t.session()
    assert (await session.exec("echo so")).stdout == b"so\n"
    for _ in range(50):
        await session.exec("true")
    sandbox = session.state.sandbox_id
    left = t.native("GET", f"/v1/processes?all=true&annotation=cloudflare.sandbox={sandbox}")["processes"]
    assert left == [], "nothing is left of an exec"
