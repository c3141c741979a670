"""The environment in which programs are recorded: files, a git repository and settings, the same on every machine."""

import os
import pathlib
import random
import subprocess

HOME = pathlib.Path("/mnt/garden")

SETTINGS = {
    "HOME": str(HOME),
    "USER": "gardener",
    "LOGNAME": "gardener",
    "SHELL": "/bin/bash",
    "TERM": "xterm-256color",
    "COLORTERM": "truecolor",
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    "GIT_CONFIG_NOSYSTEM": "1",
}

PLANTS = "apple birch cedar daisy elder fern ginger hazel iris juniper kale lupin maple nettle oak poppy quince rose sage thyme".split()


def enter():
    subprocess.run(["hostname", "garden"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", "/mnt"], check=True)
    HOME.mkdir()
    os.chdir(HOME)
    os.environ.clear()
    os.environ.update(SETTINGS)
    (HOME / "garden.py").write_text(code())
    (HOME / "words.txt").write_text(prose(400))
    (HOME / ".vimrc").write_text("syntax on\nset number ruler laststatus=2 showcmd hlsearch incsearch background=dark\nset nocompatible\n")
    (HOME / ".tmux.conf").write_text("set -g default-terminal screen-256color\nset -g status-interval 1\nset -g escape-time 0\n")


def code():
    """A source file that is long enough to scroll and uses everything that syntax highlighting colours."""
    parts = ['"""What grows where."""\n\nimport math\nfrom dataclasses import dataclass\n\nSEASONS = {"spring": 1, "summer": 2, "autumn": 3, "winter": 4}\n']
    for i, plant in enumerate(PLANTS * 3):
        parts.append(
            f'\n\n@dataclass\nclass {plant.title()}{i}:\n    """A {plant}, planted in row {i}."""\n\n'
            f"    height: float = {i * 1.5}\n    name: str = \"{plant}\\n\"  # TODO: the {plant} wants a better name than that one\n\n"
            f"    def grow(self, days: int) -> float:\n        for day in range(days):\n            if day % {i + 2} == 0 and not self.name.startswith('x'):\n"
            f"                self.height += math.sin(day) * 0x{i:02x} + 1e-{i}\n            else:\n                raise ValueError(f'no {{day}} for {{self.name!r}}')\n"
            f"        return self.height\n"
        )
    return "".join(parts)


def prose(lines, seed=7):
    """Lines of very different lengths, some of them longer than any recorded screen is wide."""
    chance = random.Random(seed)
    out = []
    for number in range(lines):
        count = chance.choice([0, 1, 3, 8, 12, 15, 20, 40, 70])
        out.append(f"{number:04} " + " ".join(chance.choice(PLANTS) for _ in range(count)))
    return "\n".join(out) + "\n"


def repository():
    """A git repository with branches and merges."""
    directory = HOME / "plants"
    directory.mkdir()
    chance = random.Random(3)

    def git(*args, day=0):
        date = f"2024-03-{1 + day % 28:02}T10:{day % 60:02}:00+00:00"
        env = {**os.environ, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        settings = ["-c", "user.name=Gärtner 園丁", "-c", "user.email=gardener@garden.example", "-c", "init.defaultBranch=main"]
        subprocess.run(["git", *settings, *args], cwd=directory, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    git("init")
    for day in range(90):
        plant = chance.choice(PLANTS)
        (directory / f"{plant}.txt").write_text(prose(3 + day % 5, day))
        git("add", "-A")
        git("commit", "-m", f"{plant.title()}: {' '.join(chance.choice(PLANTS) for _ in range(chance.choice([3, 6, 20])))}", day=day)
        if day % 9 == 4:
            git("checkout", "-b", f"{plant}-{day}")
        if day % 9 == 8:
            branch = subprocess.run(["git", "branch", "--show-current"], cwd=directory, capture_output=True, text=True, check=True).stdout.strip()
            git("checkout", "main")
            (directory / f"main-{day}.txt").write_text("on the main branch\n")
            git("add", "-A")
            git("commit", "-m", f"Main goes on, day {day} 🌱", day=day)
            git("merge", "--no-ff", "-m", f"Merge: {branch}", branch, day=day)
        if day % 20 == 19:
            git("tag", f"v{day}")
    return directory
