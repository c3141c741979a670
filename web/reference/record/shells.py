"""Recordings of shells, and of plain output in windows of changing size."""

from session import Session

LONG_PROMPT = r"\[\e[1;34m\]\u@\h\[\e[m\] \[\e[33m\]a prompt that takes more than half of the line, as they do\[\e[m\] \w \$ "


def bash():
    with Session(["bash", "--norc", "-i"], cols=80, rows=24, env={"PS1": LONG_PROMPT}, note="bash: long prompt, lines that wrap, editing within them, completion, resizes") as s:
        s.keys("echo one two three four five six seven eight nine ten eleven twelve thirteen fourteen").type("\r")
        s.type("\x1b[A").type("\x01").keys("time ").type("\x05").keys(" and more at the end of it").type("\x1bb").type("\x1bb").type("\x17").type("\x15").type("\x19").type("\r")
        s.type("ls -la --color=always\r").keys("cat wor").type("\t").keys(" | head -30").type("\r")
        s.keys("echo " + "漢字とか " * 9).type("\x02" * 12).keys("あ").type("\r")
        s.resize(60, 24).keys("a line is being typed while the window changes its width, there and").resize(100, 24).keys(" back").resize(45, 20).type("\r")
        s.type("\x12").keys("echo o").type("\x07").type("\x0c").keys("printf 'no newline at the end'").type("\r")
        s.resize(80, 10).type("seq 1 50\r").resize(80, 30).type("tput setab 4; seq 1 5; tput sgr0\r").type("clear\r").type("for i in {1..300}; do printf '%s ' $i; done\r")
        s.keys("stty -a").type("\r").type("exit\r")
    return s


def zsh():
    env = {"PROMPT": "%F{green}%n%f %K{blue}%~%k %# ", "RPROMPT": "%F{yellow}[%D{right}]%f"}
    with Session(["zsh", "-f", "-i"], cols=80, rows=24, env=env, note="zsh: prompt on the right, the mark for a missing newline, menus, resizes") as s:
        s.type("PROMPT=$'%F{green}%n%f %K{blue}%~%k %# '; RPROMPT='%F{yellow}[right 右]%f'; zstyle ':completion:*' menu select; autoload -Uz compinit; compinit -u\r")
        s.keys("echo hello").type("\r").keys("printf 'no newline'").type("\r").keys("cat ").type("\t").type("\t").type("\t").type("\x03")
        s.keys("echo a long line which runs into the prompt on the right and then into the next line of the screen 漢字").type("\r")
        s.resize(50, 24).keys("echo again").type("\r").type("\x1b[A").type("\x1b[A").resize(90, 12).type("\r").type("seq 1 30\r")
        s.keys("for i in 1 2 3").type("\r").keys("do echo $i").type("\r").keys("done").type("\r").type("\x12").keys("pri").type("\x07").type("exit\r")
    return s


def reflow():
    """Long lines that no program redraws while the width decreases and increases."""
    with Session(["bash", "--norc", "-i"], cols=80, rows=24, env={"PS1": "$ "}, note="plain output in windows that get narrower and wider: lines are wrapped anew") as s:
        s.type("head -60 words.txt\r").resize(50, 24).resize(33, 24).resize(80, 24).resize(120, 24).resize(80, 24)
        s.type("echo " + "漢字 wide " * 20 + "\r").resize(61, 24).resize(37, 24).resize(90, 24).type("seq 1 100 | tr '\\n' ' '\r").resize(40, 10).resize(100, 40)
        s.type("clear\r").type("for i in 1 2 3 4 5; do printf \"%0$((i*40))d\\n\" 7; done\r").resize(30, 24).resize(200, 24).resize(25, 8).resize(80, 24)
        s.type("printf '\\033[41m%0150d\\033[m\\n' 3; printf '\\033[1;4;35m%0170d\\033[m' 4\r").resize(44, 24).resize(80, 12).resize(81, 30)
        s.type("head -200 words.txt | tail -100\r").resize(20, 24).resize(160, 50).resize(80, 24).type("ls -la --color=always\r")
        for width in (70, 71, 72, 73, 60, 50, 40, 39, 38, 80):
            s.resize(width, 24, 0.03)
        s.type("cat words.txt | head -90 | tail -30\r").resize(79, 23).resize(78, 40).type("\x1b7echo saved\r").resize(50, 20).type("exit\r")
    return s


RECORDINGS = {"bash": bash, "zsh": zsh, "reflow": reflow}
