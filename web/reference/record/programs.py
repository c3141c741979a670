"""Recordings of full-screen programs and of programs that print line by line."""

import subprocess
import textwrap

import garden
from session import Session

ESC = "\x1b"


def vim():
    with Session(["vim", "garden.py"], note="vim 9: colours, scrolling, insert, visual, splits, search, undo, quit") as s:
        s.keys("jjjjlllll")
        s.type("\x06").type("\x06").type("\x04").type("\x15").type("\x02").type("\x05\x05\x05").type("\x19\x19")
        s.type("gg").type("/height\r").type("n").type("n").type("N")
        s.type("o").keys("# inserted by hand, with ümläuts and 漢字 and a rather long end of the line that has to wrap somewhere").type(ESC)
        s.type("V").keys("jjjj").type(">").type("u")
        s.type("v").keys("lllljj").type("y").type("p").type("u")
        s.type("\x16").keys("jjjlll").type("I//" + ESC).type("u")
        s.type(":split\r").type(":vsplit words.txt\r").type("\x06").type("\x17w").type("\x17+\x17+").type("G").type(":set wrap!\r").type("\x17w").type("G")
        s.type(":only\r").type("gg").type("dd").type("5dd").type("P").type("x").type("A end" + ESC).type("~").type("J").type("10J")
        s.type(":%s/plant/flower/gc\r").type("y").type("n").type("a")
        s.type(":help motion\r").type("\x06").type(":q\r").type(":set list nonumber cursorline\r").type(":messages\r").type("\r").type("ZQ")
        s.type(":q!\r")
    return s


def vim_resized():
    with Session(["vim", "-O", "garden.py", "words.txt"], cols=100, rows=30, note="vim 9 in windows of changing size") as s:
        s.type("\x06")
        s.resize(60, 30).type("\x06")
        s.resize(60, 12).type("G").type("\x17w")
        s.resize(120, 40).type(":split\r").type("\x05\x05")
        s.resize(121, 40)
        s.resize(20, 8).type("gg")
        s.resize(80, 24).type("i").keys("typed while it changes").resize(79, 24).keys(" and goes on").type(ESC)
        # Several resizes without waiting for output, as when a window is dragged.
        for step in range(10):
            s.resize(79 + 3 * step, 24 + step, quiet=0.01)
        s.settle().type(":terminal ls -la --color=always\r").resize(70, 20).type(":qa!\r").type(":qa!\r")
    return s


def less():
    with Session(["bash", "-c", "cat words.txt | sed 's/maple/\\x1b[1;31mmaple\\x1b[m/g;s/oak/\\x1b[4;38;5;34moak\\x1b[0m/g' | less -R"], note="less: colours, search, long lines, resizes") as s:
        s.type(" ").type(" ").type("b").type("j").type("j").type("k").type("d").type("u")
        s.type("/thyme\r").type("n").type("n").type("N").type("\x1bu")
        s.type("G").type("g").type("-S\r").type("\x1b[C").type("\x1b[C").type("\x1b[D").type("/rose\r")
        s.resize(50, 15).type(" ").type("-S\r").type(" ").resize(100, 40).type(" ").type("g").type("h").type("q").type("&birch\r").type(" ")
        s.type("/[\r").type("\r").type("=").type("q")
    return s


BUSY = "import hashlib\nx=b''\nwhile True: x=hashlib.sha256(x).digest()"


def busy_processes(seconds):
    """Processes for htop and top to show; they end by themselves."""
    names = ["sleep 60"] * 4
    return [subprocess.Popen(["timeout", str(seconds), *name.split()]) for name in names] + [
        subprocess.Popen(["timeout", str(seconds), "python3", "-c", BUSY])
    ]


def htop():
    others = busy_processes(40)
    with Session(["htop", "-d", "5"], cols=90, rows=26, note="htop 3: bars, colours, menus, resizes; ncurses with REP and ECH") as s:
        s.run(1.2)
        s.type("\x1b[B", 0.1).type("\x1b[B", 0.1).type("\x1b[B", 0.1).type("t", 0.2).run(0.6)
        s.type("\x1bOQ", 0.2).run(0.6).type("\x1b[B", 0.1).type("\x1b[B", 0.1).type("\x1b", 0.3).run(0.5)
        s.resize(60, 18, 0.1).run(1.2)
        s.type("/", 0.1).type("sleep", 0.2).type("\r", 0.2).run(0.3).type("\x1bOR", 0.2).type("\x1b", 0.3)
        s.resize(130, 35, 0.1).run(1.2).type("h", 0.3).type(" ", 0.3).run(0.4)
        s.type("\x1b[6~", 0.2).type("\x1b[H", 0.2).run(0.6).type("q")
    for other in others:
        other.terminate()
        other.wait()
    return s


def htop_drawn():
    others = busy_processes(20)
    with Session(["htop", "-d", "5"], cols=80, rows=24, env={"LANG": "C", "TERM": "xterm"}, note="htop without UTF-8: lines are drawn with the DEC graphics set") as s:
        s.run(1.2).type("\x1bOQ", 0.3).run(0.4).type("\x1b", 0.3).type("t", 0.3).run(0.8).type("\x1bOS", 0.3).run(0.5).type("\x1b", 0.3).type("q")
    for other in others:
        other.terminate()
        other.wait()
    return s


def top():
    others = busy_processes(20)
    with Session(["top", "-d", "0.5"], cols=80, rows=24, note="top: partial repaints, resizes") as s:
        s.run(1.5).type("1", 0.1).type("c", 0.1).run(0.8).type("z", 0.1).run(0.6).resize(60, 15, 0.1).run(1).resize(100, 30, 0.1).run(1).type("x", 0.1).run(0.6).type("q")
    for other in others:
        other.terminate()
        other.wait()
    return s


PREFIX = "\x02"


def tmux():
    prompt = {"PS1": "\\[\\e[32m\\]garden\\[\\e[m\\]:\\w\\$ "}
    with Session(["tmux", "-L", "record", "new-session", "bash --norc"], cols=100, rows=30, env=prompt, note="tmux: panes, status line, scroll regions, copy mode, resizes") as s:
        s.run(1)
        s.type("seq 1 60\r", 0.3).type("ls -la --color=always\r", 0.3)
        s.type(PREFIX + "%", 0.5).type("cat words.txt | head -50\r", 0.5)
        s.type(PREFIX + '"', 0.5).type("for i in 1 2 3 4 5 6 7 8; do echo \"line $i\"; sleep 0.1; done\r", 0.4)
        s.type(PREFIX + "[", 0.3).type("\x1b[5~", 0.3).type("\x1b[5~", 0.3).type("q", 0.3)
        s.resize(80, 24, 0.4).run(1.2)
        s.type("vim garden.py\r", 0.6).type("\x06", 0.3).type("\x06", 0.3)
        s.type(PREFIX + "z", 0.4).type("\x06", 0.3).type(PREFIX + "z", 0.4)
        s.resize(120, 35, 0.4).type(":q\r", 0.4)
        s.type(PREFIX + "c", 0.5).type("echo 漢字 🌱 é; seq 1 200\r", 0.5).type(PREFIX + "p", 0.4).type(PREFIX + "o", 0.4).type(PREFIX + " ", 0.4)
        s.type(PREFIX + "?", 0.4).type("q", 0.3).type(PREFIX + "t", 0.6).type("q", 0.3)
        s.type(PREFIX + ":kill-server\r", 0.6)
    return s


def tmux_drawn():
    env = {"LANG": "C", "TERM": "xterm", "PS1": "$ "}
    with Session(["tmux", "-L", "drawn", "new-session", "bash --norc"], cols=80, rows=24, env=env, note="tmux without UTF-8: borders in the DEC graphics set; scroll regions in panes") as s:
        s.run(0.6).type(PREFIX + "%", 0.4).type(PREFIX + '"', 0.4).type("seq 1 300\r", 0.4).type(PREFIX + "o", 0.3).type("seq 1 100\r", 0.4)
        s.type("tput rev; echo reversed; tput sgr0; tput smacs; echo lqqqk; tput rmacs\r", 0.4).type(PREFIX + "x", 0.3).type("y", 0.3).type("clear\r", 0.3)
        s.type("yes abcdefghij | head -400 | tr -d '\\n'\r", 0.4).type(PREFIX + ":kill-server\r", 0.5)
    return s


def git_log():
    repository = garden.repository()
    command = f"cd {repository} && git --no-pager log --color=always --graph --decorate --stat -p --all | head -c 120000; printf '\\033[m'"
    with Session(["bash", "-c", command], cols=100, rows=30, note="git log --graph --stat -p with colours: more lines than are kept above the screen") as s:
        s.settle(0.5)
    return s


BARS = textwrap.dedent(
    """
    import sys, time
    out = sys.stdout
    for i in range(101):
        out.write(f"\\rDownloading garden-1.0.whl {'━' * (i // 3)}\\x1b[90m{'━' * (33 - i // 3)}\\x1b[m {i:3}% \\x1b[32m{i * 13.7:7.1f} kB/s\\x1b[m\\x1b[K")
        out.flush(); time.sleep(0.002)
    out.write("\\n")
    out.write("\\x1b[?25l")
    tasks = [0] * 5
    for step in range(60):
        if step: out.write(f"\\x1b[{len(tasks)}A")
        for n in range(len(tasks)):
            tasks[n] = min(40, tasks[n] + (step + n) % 3)
            done = "\\x1b[32m✔\\x1b[m" if tasks[n] == 40 else "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"[step % 10]
            out.write(f" {done} layer {n} [{'=' * tasks[n]:<40}] {tasks[n] * 2.5:5.1f}%\\x1b[K\\n")
        if step == 30: out.write("\\x1b[1A\\x1b[2Kwarning: a line in between that is longer than the terminal is wide, so that it wraps and the count of lines is wrong\\n")
        out.flush(); time.sleep(0.002)
    out.write("\\x1b[?25h")
    for i in range(40):
        out.write("\\x1b[s" + "." * (i * 3) + "\\x1b[u"); out.flush()
    out.write("\\x1b[2K\\rdone\\n")
    """
)


def progress():
    (garden.HOME / "bars.py").write_text(BARS)
    (garden.HOME / "large").write_bytes(b"x" * 30_000_000)
    clone = garden.HOME / "cloned"
    source = garden.repository() if not (garden.HOME / "plants").exists() else garden.HOME / "plants"
    command = f"curl -# -o /dev/null file://{garden.HOME}/large; curl -o /dev/null file://{garden.HOME}/large; python3 bars.py; " \
        f"git clone --progress file://{source} {clone}; dd if=/dev/zero of=/dev/null bs=1M count=40000 status=progress"
    with Session(["bash", "-c", command], cols=80, rows=24, note="progress: curl, git clone, dd, and bars of one line and of several") as s:
        s.settle(1.5)
    return s


def python():
    env = {"PYTHONSTARTUP": "", "PYTHON_HISTORY": "/dev/null"}
    with Session(["python3", "-q"], cols=60, rows=20, env=env, note="the prompt of Python: readline, a long line, a traceback") as s:
        s.keys("for i in range(30): print(i, '*' * i * 4)").type("\r").type("\r")
        s.keys("'漢字' * 40").type("\r").type("1/0\r").type("\x1b[A").type("\x1b[A").type("\x01").keys("x = ").type("\r").type("help(len)\r").type("q")
        s.keys("print('a' * 59, end='')").type("\r").keys("print('b' * 60, end='')").type("\r").type("\x12").keys("rang").type("\r").type("\x04")
    return s


def watch():
    with Session(["watch", "-n", "1", "-d", "-c", "seq 1 9; date +%S%N; ls -l --color=always; head -c 300 /dev/urandom | base64"], cols=70, rows=20, note="watch -d: differences reversed, resizes") as s:
        s.run(6).resize(50, 12, 0.1).run(5).resize(90, 25, 0.1).run(5).type("\x03")
    return s


RECORDINGS = {
    "vim": vim, "vim-resized": vim_resized, "less": less, "htop": htop, "htop-drawn": htop_drawn, "top": top, "tmux": tmux,
    "tmux-drawn": tmux_drawn, "git-log": git_log, "progress": progress, "python": python, "watch": watch,
}
