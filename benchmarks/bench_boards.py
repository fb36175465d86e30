"""What does a network take of a microcontroller? Emitted code, built by its own Makefile, run under qemu
beside onnxruntime; sizes are the linker's, the stack is painted. Times are not looked at: qemu has none.

    python -m benchmarks.bench_boards            # rewrites the table of docs/boards.md
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime

import csdfgen
from benchmarks.pages import ROOT, write_between
from csdfgen.emission.emit import emit
from csdfgen.emission.targets import TARGETS, Board
from csdfgen.planning.plan import Plan
from runtime.images import random_inputs
from zoo_models import ZOO

__all__ = ["main", "ram", "stack_of"]

NAMES = ("ds_cnn", "resnet8", "mobilenet_v1_x0_25")
BOARDS = ("cortex-m7", "cortex-m55")
PAGE, MARKER = ROOT / "docs" / "boards.md", "boards"
KIB = 1024

COLUMNS = (
    "network",
    "target",
    "whole layers, KiB",
    "arena, KiB",
    "input and output, KiB",
    "other RAM, bytes",
    "stack used, bytes",
    "code, KiB",
    "constants, KiB",
    "largest difference",
)


def stack_of(said: str) -> tuple[int, int]:
    """Bytes of the stack that were used, and that there are, as a program on a board says."""
    found = re.search(r"^stack (\d+) of (\d+) bytes$", said, re.M)
    assert found, said
    return int(found[1]), int(found[2])


def sections(map_file: Path) -> dict[str, tuple[int, int]]:
    """(address, bytes) of the sections of a linker's map."""
    found = re.findall(r"^(\.\S+)\s+(0x\w+)\s+(0x\w+)", _mapped(map_file), re.M)
    return {name: (int(at, 16), int(size, 16)) for name, at, size in found}


def _mapped(map_file: Path) -> str:
    return map_file.read_text().partition("Linker script and memory map")[2]


def ram(map_file: Path, board: Board) -> dict[str, int]:
    """Bytes of RAM by what they are for, from the linker's map: "stack", "FILE.o: variable", "gaps". They
    add up to all sections in RAM.
    """
    known = sections(map_file)
    ((low, size),) = [(at, size) for name, at, size in board.memory if name == "RAM"]
    stack = known[".stack"]
    assert stack[0] == low
    items = {"stack": stack[1]}
    for name, at, number, home in re.findall(
        r"^ (\.\S+|COMMON|\*fill\*)\s+(0x\w+)\s+(0x\w+)(?: +(\S+))?", _mapped(map_file), re.M
    ):
        if int(number, 16) and sum(stack) <= int(at, 16) < low + size:
            plain = re.sub(r"[.]\d+$", "", re.sub(r"^[.](bss|data)[.]", "", name))
            key = f"{re.sub(r'.*[(/]|[)]', '', home)}: {plain}" if home else "gaps"
            items[key] = items.get(key, 0) + int(number, 16)
    assert sum(items.values()) == sum(n for at, n in known.values() if low <= at < low + size)
    return items


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of a network on a board, in bytes; difference: largest of an output, relative to its largest."""

    name: str
    target: str
    whole: int
    arena: int
    ports: int
    other: int
    stack: int
    code: int
    constants: int
    difference: float


def measure(name: str, target: str, plan: Plan, folder: Path) -> Sizes:
    """Emit, build, run, compare."""
    board = TARGETS[target].board
    assert board is not None
    made = emit(plan, name, folder, target=target)
    feeds = random_inputs(plan.network, 0)
    files = []
    for number, tensor in enumerate(plan.network.inputs):
        files.append(f"input{number}.bin")
        (folder / files[-1]).write_bytes(np.ascontiguousarray(feeds[tensor.name]).tobytes())
    make = ["make", "-s", "-C", str(folder)]
    subprocess.run([*make, "all"], check=True)
    said = subprocess.run(
        [*make, "run", f"ARGS=-o output.bin {' '.join(files)}"],
        check=True,
        capture_output=True,
        text=True,
    ).stderr
    map_file = folder / f"{made.name}.map"
    items, known = ram(map_file, board), sections(map_file)
    arena, ports = items.pop(f"{made.name}.o: arena"), items.pop("main.o: data")
    items.pop("stack")
    return Sizes(
        name,
        target,
        plan.figures["whole_layer_live"],
        arena,
        ports,
        sum(items.values()),
        stack_of(said)[0],
        sum(known[one][1] for one in (".vectors", ".text", ".ARM.exidx") if one in known),
        known[".constants"][1],
        _difference(name, feeds, plan, (folder / "output.bin").read_bytes()),
    )


def _difference(name: str, feeds: Mapping[str, np.ndarray], plan: Plan, data: bytes) -> float:
    """Of the bytes of all outputs from what onnxruntime computes."""
    model = ZOO[name].build().SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    wanted = session.run([one.name for one in plan.network.outputs], dict(feeds))
    flat = np.concatenate([np.asarray(one, np.float32).ravel() for one in wanted])
    return float(np.abs(np.frombuffer(data, np.float32) - flat).max() / np.abs(flat).max())


def table(rows: Sequence[Sizes]) -> list[str]:
    """The table of the page."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"|---|---|{'---:|' * (len(COLUMNS) - 2)}"]
    for one in rows:
        sizes = (one.whole, one.arena, one.ports)
        lines.append(
            f"| {one.name} | {one.target} | {' | '.join(f'{size / KIB:.1f}' for size in sizes)} | {one.other} | "
            f"{one.stack:,} | {one.code / KIB:.1f} | {one.constants / KIB:.1f} | "
            f"{f'{one.difference:.0e}' if one.difference else 'none'} |"
        )
    compiler = subprocess.run(
        [TARGETS[BOARDS[0]].compiler, "-dumpversion"], capture_output=True, text=True, check=True
    )
    lines += ["", f"arm-none-eabi-gcc {compiler.stdout.strip()}, the flags of the Makefile."]
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_boards", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="networks of the zoo")
    options = parser.parse_args(arguments)
    rows = []
    for name in options.names or NAMES:
        network = csdfgen.load(ZOO[name].build())
        plan = csdfgen.plan(network, goal="memory", backend="native")
        for target in BOARDS:
            with tempfile.TemporaryDirectory() as folder:
                rows.append(measure(name, target, plan, Path(folder) / "c"))
    lines = table(rows)
    print("\n".join(lines))
    if not options.names:
        write_between(PAGE, MARKER, lines)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
