"""The commands and examples of README and of the guide in docs/, executed. `python -m tests.documents`
writes their real output into the pages; `python -m tests.documents README.md docs/plan.md` into these.

In a `console` block every line that starts with `$ ` is a command, and what follows is its output. A
`python` block runs as a program; the `text` block behind it holds its output. The blocks of one page
run one after another in the same empty folder, in which `docs` is the folder of the repository.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
DECISIONS = ROOT / "docs" / "decisions"
PAGES = (
    README,
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted(DECISIONS.glob("*.md")),
)

BLOCK = re.compile(r"^```(console|python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```console\n.*?^```$", re.MULTILINE | re.DOTALL)

PROGRAMS = {
    "csdfgen": 'exec {python} -m csdfgen "$@"',
    "python": 'exec {python} "$@"',
    "make": 'test "$1" = demo && exec {python} -m benchmarks.demo --out out',
}
"""Commands of the pages -> what is run here, without a second environment."""

MASKS = (
    (r"measuring the kernels once.*\n", ""),
    (r"\d[\d.,]* ms", "# ms"),
    (r"in [\d.,]+ s, [\d,]+ rows/s", "in #"),
    (r"[\d,]+ bytes resident at most", "#"),
    (r"[\d,]+ launches a frame", "# launches a frame"),
    (r"[\d,.]+ frames/s, .* measured", "#"),
    (r"process    peak .*", "#"),
    (r"kernels for \w+", "kernels for #"),
    (r"account    .*", "account #"),
    (r"\w+ +in all .*", "in all #"),
    (r"-?\d+\.\d dB( \(predicted -?\d+\.\d\))?", "# dB"),
    (r"median of the largest fit error of each [\d.]+ %", "#"),
    (r"\d(\.\d+)?e[-+]\d+", "#"),
    (r"[\d,]+ bytes allocated by Python .*, outputs", "# bytes allocated, outputs"),
    (r"│ (onnxruntime, memory|less memory by) .*", "#"),
    (r"\w+, numpy \d.*", "#"),
    (r"[ ━─]+", " "),
)
"""What differs from machine to machine: times, rounding, measured memory, instructions, and the widths of
columns that follow from them.
"""


def masked(text: str) -> str:
    """A text without what differs from machine to machine."""
    for pattern, instead in MASKS:
        text = re.sub(pattern, instead, text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def has_commands(page: Path) -> bool:
    """Whether a page has commands or programs to execute."""
    return any(block[1] != "text" for block in BLOCK.finditer(page.read_text()))


def executed(text: str) -> str:
    """The text with the real output of every command and program in it."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        programs = place / "programs"
        programs.mkdir()
        (place / "docs").symlink_to(ROOT / "docs", target_is_directory=True)
        for name, command in PROGRAMS.items():
            script = programs / name
            script.write_text(f"#!/bin/sh\n{command.format(python=shlex.quote(sys.executable))}\n")
            script.chmod(0o755)
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "100",
        }
        for tool in ("CSDFGEN_SDF3", "CSDFGEN_KITER"):
            environment.pop(tool, None)
        printed = ""

        def run(block: re.Match[str]) -> str:
            nonlocal printed
            kind, body = block[1], block[2]
            if kind == "console":
                commands = [line for line in body.splitlines() if line.startswith("$ ")]
                body = "".join(
                    f"{line}\n{output(line[2:], place, environment)}" for line in commands
                )
            elif kind == "python":
                (place / "example.py").write_text(body)
                printed = output("python example.py", place, environment)
            else:
                body = printed
            return f"```{kind}\n{body}```"

        return BLOCK.sub(run, text)


def output(command: str, folder: Path, environment: dict[str, str]) -> str:
    """What a shell command prints, on either stream; lines without the blanks at their ends."""
    done = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=environment,
        text=True,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:]) if sys.argv[1:] else filter(has_commands, PAGES):
        page.write_text(executed(page.read_text()))
