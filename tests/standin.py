"""Programs that stand in for SDF3 and Kiter: they answer with transcripts, to the letter, exit code
and signal included.

A transcript is a text file: `# command: PROGRAM ARGUMENTS`, `# exit code: N ...` ("none": it did
not end), then what was printed, between `=== stdout`, `=== stderr` and `=== end`. Those in
`tests/data/tools` were written for the tests; recorded ones are read where they are.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

DATA = Path(__file__).parent / "data" / "tools"

_FORM = re.compile(
    r"# command: (?P<command>[^\n]*)\n# exit code: (?P<code>-?\d+|none)[^\n]*\n"
    r"=== stdout\n(?P<out>.*?)=== stderr\n(?P<err>.*?)=== end\n?",
    re.DOTALL,
)

_PROGRAM = """#!{python} -IS
import json, os, signal, sys, time

arguments = sys.argv[1:]
with open({replies!r}, encoding="utf-8") as file:
    replies = json.load(file)
with open({log!r}, "a+", encoding="utf-8") as file:
    file.seek(0)
    before = [json.loads(line) for line in file]
    print(json.dumps(arguments), file=file)
if "graph.xml" in arguments:
    with open("graph.xml", encoding="utf-8") as file, open({log!r} + ".xml", "w", encoding="utf-8") as copy:
        copy.write(file.read())
word = next((word for word in arguments if word in replies), "*")
if word not in replies:
    sys.exit("no reply to " + " ".join(arguments))
turn = sum(word in call for call in before)
reply = replies[word][min(turn, len(replies[word]) - 1)]
sys.stdout.write(reply["stdout"])
sys.stderr.write(reply["stderr"])
sys.stdout.flush()
sys.stderr.flush()
if reply["exit_code"] is None:
    time.sleep(600)
elif reply["exit_code"] < 0:
    signal.signal(-reply["exit_code"], signal.SIG_DFL) if reply["exit_code"] != -9 else None
    os.kill(os.getpid(), -reply["exit_code"])
    time.sleep(600)
sys.exit(reply["exit_code"])
"""


@dataclass(frozen=True)
class Reply:
    """What a program prints, and how it ends: exit_code is minus the number of a signal, None if it
    does not end.
    """

    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = 0


@dataclass(frozen=True)
class Transcript:
    command: tuple[str, ...]
    reply: Reply

    @property
    def algorithm(self) -> str:
        """The last argument, which names it in all commands that do."""
        return self.command[-1]

    @property
    def graph(self) -> str:
        """The file of the graph, relative to the folder of the recorded data; "" if there is none."""
        return next((word for word in self.command if word.endswith(".xml")), "")


def read_transcript(path: Path) -> Transcript:
    found = _FORM.fullmatch(path.read_bytes().decode())
    assert found is not None, path
    code = None if found["code"] == "none" else int(found["code"])
    return Transcript(tuple(shlex.split(found["command"])), Reply(found["out"], found["err"], code))


SDF3_HELP = read_transcript(DATA / "sdf3_help.txt").reply
KITER_HELP = read_transcript(DATA / "kiter_help.txt").reply


def stand_in(folder: Path, program: str, replies: Mapping[str, Reply | Sequence[Reply]]) -> Path:
    """Write a program that replies by its first argument that is a key, with "*" to any other; it
    keeps what it was asked.

    Of several replies each is given once, in turn, the last one for ever.
    """
    folder.mkdir(parents=True, exist_ok=True)
    known = {"--help": SDF3_HELP, "-h": KITER_HELP, **replies}
    path, table = folder / program, folder / f"{program}.json"
    turns = {
        key: [value] if isinstance(value, Reply) else list(value) for key, value in known.items()
    }
    table.write_text(
        json.dumps({key: [asdict(reply) for reply in value] for key, value in turns.items()}),
        encoding="utf-8",
    )
    log = str(folder / f"{program}.log")
    path.write_text(
        _PROGRAM.format(python=sys.executable, replies=str(table), log=log), encoding="utf-8"
    )
    path.chmod(0o755)
    return path


def asked(program: Path) -> list[list[str]]:
    """The arguments of every call of a stand-in, the one for its version left out."""
    log = program.with_name(f"{program.name}.log")
    calls = (
        [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        if log.exists()
        else []
    )
    return [call for call in calls if call not in (["--help"], ["-h"])]


def asked_graph(program: Path) -> bytes:
    """The file of the last graph that a stand-in got."""
    return program.with_name(f"{program.name}.log.xml").read_bytes()
