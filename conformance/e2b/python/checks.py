"""Calls of the Python SDK, above all those that the JavaScript SDK lacks or makes differently."""

import io
import itertools
import threading

from e2b import (
    AuthenticationException,
    CommandExitException,
    InvalidArgumentException,
    NotFoundException,
    PtySize,
    TimeoutException,
)

from context import ENVS
from runner import check, eventually


def expect_raises(kind, call, contains=""):
    try:
        value = call()
    except kind as error:
        assert contains in str(error), str(error)
        return error
    raise AssertionError(f"expected {kind.__name__}, got {value!r}")


def numbers(length):
    text = io.StringIO()
    for n in itertools.count(1):
        if text.tell() >= length:
            return text.getvalue()[:length]
        text.write(f"{n}\n")


@check
def sandbox_is_running(t):
    assert t.sandbox().is_running() is True
    assert t.run("echo so").stdout == "so\n"


@check
def run_returns_output_and_exit_code(t):
    result = t.run("echo out; echo err >&2")
    assert (result.stdout, result.stderr, result.exit_code, result.error) == ("out\n", "err\n", 0, None)
    error = expect_raises(CommandExitException, lambda: t.run("echo a; exit 3"))
    assert (error.exit_code, error.stdout, error.error) == (3, "a\n", "exit status 3")


@check
def run_callbacks_receive_both_streams(t):
    out, err = [], []
    t.run("echo 1; echo 2 >&2; echo 3", on_stdout=out.append, on_stderr=err.append)
    assert ("".join(out), "".join(err)) == ("1\n3\n", "2\n")


@check
def run_reports_death_by_signal(t):
    error = expect_raises(CommandExitException, lambda: t.run("kill -9 $$"))
    assert (error.exit_code, error.error) == (-1, "signal: killed")


@check
def run_of_a_missing_command_exits_with_127(t):
    error = expect_raises(CommandExitException, lambda: t.run("no-such-command-here"))
    assert error.exit_code == 127 and "command not found" in error.stderr


@check
def run_refuses_bad_cwd_and_unknown_user(t):
    expect_raises(InvalidArgumentException, lambda: t.run("true", cwd="/no/such"), "cwd '/no/such' does not exist")
    expect_raises(AuthenticationException, lambda: t.run("true", user="nobody-here"), "invalid username")


@check
def output_of_20_mb_is_exact(t):
    length = 20_000_000
    result = t.run(f"seq 1 {length} 2>/dev/null | head -c {length}")
    assert len(result.stdout) == length
    assert result.stdout == numbers(length)


@check
def output_replaces_invalid_utf8_and_joins_split_characters(t):
    assert t.run(r"printf 'a\377b'").stdout == "a\ufffdb"
    assert t.run(r"printf '\360\237'; sleep 0.2; printf '\230\200'").stdout == "😀"


@check
def stream_input_is_followed_by_end_of_file(t):
    handle = t.background("cat", stdin=True)

    def parts():
        yield "one\n"
        # Continues only after the first part was written.
        t.wait_for_output(handle.pid, "one")
        yield b"\x00\n"

    commands = t.sandbox().commands
    commands.stream_input(handle.pid, parts())
    commands.close_stdin(handle.pid)
    assert handle.wait().stdout == "one\n\x00\n"


@check
def stream_input_of_a_megabyte_arrives_complete(t):
    handle = t.background("wc -c", stdin=True)
    commands = t.sandbox().commands
    commands.stream_input(handle.pid, (b"x" * 10_000 for _ in range(100)))
    commands.close_stdin(handle.pid)
    assert handle.wait().stdout == "1000000\n"


@check
def stream_input_to_an_unknown_process_is_not_found(t):
    expect_raises(NotFoundException, lambda: t.sandbox().commands.stream_input(999999, ["x"]))


@check
def send_stdin_reaches_the_program(t):
    handle = t.background("head -n 1", stdin=True)
    t.sandbox().commands.send_stdin(handle.pid, "äö\n")
    assert handle.wait().stdout == "äö\n"


@check
def list_shows_and_kill_ends_a_process(t):
    commands = t.sandbox().commands
    handle = t.background("sleep 300", cwd="/usr", envs={"A": "b"})
    found = next(one for one in commands.list() if one.pid == handle.pid)
    assert (found.cmd, found.args, found.cwd) == ("/bin/bash", ["-l", "-c", "sleep 300"], "/usr")
    assert found.envs == ENVS | {"A": "b"}
    assert commands.kill(handle.pid) is True
    error = expect_raises(CommandExitException, handle.wait)
    assert error.exit_code == -1
    assert commands.kill(handle.pid) is False
    assert all(one.pid != handle.pid for one in commands.list())


@check
def timeout_kills_the_tree(t):
    sleep = f"sleep 30{id(t) % 100_000}"
    expect_raises(TimeoutException, lambda: t.run(f"setsid {sleep} & {sleep}", timeout=1.5))
    pgrep = f"pgrep -fc -- '[s]{sleep[1:]}' || true"
    eventually("the tree is killed", lambda: t.native("POST", "/v1/processes/run", {"command": pgrep, "shell": True})["stdout"] == "0\n")


@check
def reconnect_loses_no_output(t):
    handle = t.background("echo before; head -n 1; seq 1 3000; echo after", stdin=True)
    t.wait_for_output(handle.pid, "before")
    seen = []
    for out, _, _ in handle:
        seen.append(out or "")
        if "before" in "".join(seen):
            break
    handle.disconnect()
    commands = t.sandbox().commands
    commands.send_stdin(handle.pid, "go\n")
    t.wait_for_exit(handle.pid)
    again = commands.connect(handle.pid).wait()
    assert "".join(seen) + again.stdout == "before\ngo\n" + "".join(f"{n}\n" for n in range(1, 3001)) + "after\n"


@check
def connect_after_the_exit_returns_the_exit_code(t):
    handle = t.background("echo gone; exit 4")
    handle.disconnect()
    t.wait_for_exit(handle.pid)
    error = expect_raises(CommandExitException, lambda: t.sandbox().commands.connect(handle.pid).wait())
    assert error.exit_code == 4
    expect_raises(NotFoundException, lambda: t.sandbox().commands.connect(999999), "process with pid 999999 not found")


@check
def idle_handle_does_not_delay_others(t):
    """A handle of the synchronous SDK reads only during `wait`, so an idle handle is a stalled reader."""
    idle = t.background("head -n 1; seq 1 3000000; echo all", stdin=True)
    commands = t.sandbox().commands
    other = commands.connect(idle.pid, timeout=0)
    commands.send_stdin(idle.pid, "go\n")
    assert other.wait().stdout.endswith("3000000\nall\n")
    assert t.run("echo on").stdout == "on\n"


@check
def terminal_has_size_input_resize_and_exit_code(t):
    pty = t.sandbox().pty
    handle = pty.create(PtySize(rows=30, cols=90), envs=ENVS | {"PS1": ""}, timeout=0)
    t.pids.add(handle.pid)
    pty.send_stdin(handle.pid, b"stty size; echo re''ady\n")
    t.wait_for_output(handle.pid, "30 90[\\s\\S]*ready")
    pty.resize(handle.pid, PtySize(rows=41, cols=101))
    pty.send_stdin(handle.pid, b"stty size; exit 5\n")
    seen = []
    error = expect_raises(CommandExitException, lambda: handle.wait(on_pty=seen.append))
    assert error.exit_code == 5
    assert b"30 90\r\n" in b"".join(seen) and b"41 101\r\n" in b"".join(seen)


@check
def terminal_accepts_streamed_input_and_reconnects(t):
    pty = t.sandbox().pty
    handle = pty.create(PtySize(rows=24, cols=80), envs=ENVS | {"PS1": ""}, timeout=0)
    t.pids.add(handle.pid)
    handle.disconnect()
    pty.stream_input(handle.pid, [b"echo strea''med\n", b"exit\n"])
    t.wait_for_exit(handle.pid)
    seen = []
    pty.connect(handle.pid).wait(on_pty=seen.append)
    assert b"streamed\r\n" in b"".join(seen)
    assert pty.kill(handle.pid) is False


@check
def sixteen_threads_run_commands_at_once(t):
    results = {}

    def work(n):
        results[n] = t.run(f"echo {n}; seq 1 20000; exit 0").stdout

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = "".join(f"{n}\n" for n in range(1, 20_001))
    assert all(results[n] == f"{n}\n{expected}" for n in range(16))


@check
def many_calls_share_one_connection(t):
    commands = t.sandbox().commands
    for n in range(30):
        assert commands.run(f"echo {n}", envs=ENVS).stdout == f"{n}\n"
        assert isinstance(commands.list(), list)
