"""What does a network take of a microcontroller, and how many instructions? Emitted code, built by its own Makefile, counted by
qemu, compared with CMSIS-NN's kernels on whole maps (`cmsis_nn.csv`) and, for .tflite files, with the arena of TensorFlow Lite
Micro (PyPI: tflite-micro).

    python -m benchmarks.bench_boards            # rewrites tables and the picture of docs/boards.md
    python -m benchmarks.bench_boards resnet8 --formats int8 --targets cortex-m55

Sizes are the linker's, the stack is painted. `-icount shift=0` makes each instruction a nanosecond of the emulated clock; qemu
has no times.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import csdfgen
import runtime
from benchmarks.pages import ROOT, picture, write_between
from csdfgen.backends.registry import load_backend
from csdfgen.devices.boards import describe_actors, describe_network
from csdfgen.emission.account import account_memory
from csdfgen.emission.bundle import Part, bundle
from csdfgen.emission.emit import whole_unit
from csdfgen.emission.targets import STACK, TARGETS, Board
from csdfgen.emission.times import make_inputs
from csdfgen.planning.plan import Plan
from zoo_models import ZOO

__all__ = ["main", "ram", "stack_of"]

NAMES = ("ds_cnn", "resnet8", "mobilenet_v1_x0_25")
FORMATS = ("int8", "float32")
GOALS = (None, "memory")
NANOSECONDS = {"cortex-m4": 40, "cortex-m7": 40, "cortex-m55": 31.25, "rv32imc": 1}
"""Of a tick of the board's clock under qemu, each of which is an instruction; a loop of known length confirms them."""

PAGE = ROOT / "docs" / "boards.md"
RECORDED = Path(__file__).parent / "cmsis_nn.csv"
KIB, MILLION = 1024, 1e6


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
class Measured:
    """Of a plan of a network on a board, in bytes; instructions of a frame, and of each layer by its key. whole: of the maps
    that are alive layer by layer.
    """

    name: str
    form: str
    target: str
    goal: str | None
    whole: int
    arena: int
    stack: int
    code: int
    constants: int
    instructions: float
    layers: tuple[tuple[str, float], ...]

    @property
    def plan(self) -> str:
        """As tables have it."""
        return f"`--goal {self.goal}`" if self.goal else "default"


def model_of(name: str, form: str) -> onnx.ModelProto:
    """A network of the zoo, also as integers from end to end."""
    model = ZOO[name].build()
    if form == "float32":
        return model
    (tensor,) = csdfgen.load(model).inputs
    images = np.random.default_rng(0).normal(0, 1, (4, *tensor.shape[1:]))
    return csdfgen.quantize(model, {tensor.name: images.astype(np.float32)}, integer_io=True).model


def measure(name: str, form: str, target: str, folder: Path) -> Iterator[Measured]:
    """Plans by default and for the least memory: emitted in one bundle, built, executed."""
    network, machine = csdfgen.load(model_of(name, form)), TARGETS[target]
    plan = partial(csdfgen.plan, network, backend="native", count=machine.count)
    plans = [plan(goal=goal) if goal else plan() for goal in GOALS]
    result = _executed(plans, name, target, folder)
    inner = folder / name
    board, known = machine.board, sections(inner / f"{name}.map")
    assert board is not None and result["difference"] < 10, "outputs are not csdfgen's"
    code = sum(known[one][1] for one in (".vectors", ".text", ".ARM.exidx") if one in known)
    for number, (made, goal) in enumerate(zip(plans, GOALS, strict=True)):
        _, plain, _, ticks = [one for one in result["frames"] if one[0] == number][-1]
        keys = [actor and actor["key"] for actor in result["heights"][number]["actors"]]
        layers = [(key, n * NANOSECONDS[target]) for key, n in zip(keys, ticks, strict=True) if key]
        yield Measured(
            *(name, form, target, goal, made.figures["whole_layer_live"], made.planned_bytes),
            *(result["machine"]["stack used"], code, known[".constants"][1]),
            *(plain * NANOSECONDS[target], tuple(layers)),
        )


def _executed(plans: Sequence[Plan], name: str, target: str, folder: Path) -> dict[str, Any]:
    """What the program that times these plans writes under qemu."""
    board = TARGETS[target].board
    assert board is not None
    kernels, first = load_backend("native"), plans[0]
    feeds = {tensor.name: make_inputs(tensor) for tensor in first.network.inputs}
    outputs = runtime.compile(first, backend="native")(feeds)
    parts = [Part(one, {"rows": "1"}, describe_actors(one)) for one in plans]
    about = describe_network(name, target, "native", csdfgen.__version__)
    file = folder / "b.tar.gz"
    bundle(first, name, file, parts, kernels, outputs, about, target=target, oversize=True)
    with tarfile.open(file) as archive:
        archive.extractall(folder, filter="data")
    emulator = f"{board.emulator} -icount shift=0 -display none -monitor none -serial none"
    for words in (["-j2", "all"], ["result.json", f"QEMU={emulator}", "TIMES=-n 1"]):
        subprocess.run(
            ["make", "-s", "-C", str(folder / name), *words], check=True, stdout=subprocess.DEVNULL
        )
    result: dict[str, Any] = json.loads((folder / name / "result.json").read_text())
    return result


# Others -------------------------------------------------------------------------------------------


def recorded() -> dict[tuple[str, str], list[tuple[str, int]]]:
    """CMSIS-NN's figures of a (target, network): (layer or "total", ..., number)."""
    found: dict[tuple[str, str], list[tuple[str, int]]] = {}
    lines = (line for line in RECORDED.read_text().splitlines() if not line.startswith("#"))
    for row in csv.DictReader(lines):
        key = f"cortex-{row['core']}", row["network"]
        found.setdefault(key, []).append((row["layer"], int(row["value"])))
    return found


def pattern(layer: str) -> str:
    """What the key of our actor for a layer of theirs has."""
    kind, *sizes = layer.split()
    if kind == "conv":
        height, width, ins, outs, *kernel = sizes[:6]
        return rf"Conv 1x{ins}x{height}x{width}:\w+ \[{outs}x{ins}x{'x'.join(kernel)}\b"
    if kind == "dw":
        height, width, channels = sizes[:3]
        return rf"Conv 1x{channels}x{height}x{width}:\w+ \[{channels}x1x3x3\b"
    return {"add": "Add ", "pool": "Pool"}.get(kind, "$^")


def ratios(one: Measured, theirs: Sequence[tuple[str, int]]) -> list[tuple[float, str]]:
    """Ours divided by theirs, of each layer that both have."""
    left, found = list(one.layers), []
    for layer, count in theirs:
        ours = next((x for x in left if re.search(pattern(layer), x[0])), None)
        if ours is not None:
            left.remove(ours)
            found.append((ours[1] / count, layer))
    return found


def of_tensorflow() -> list[str]:
    """A table of networks as .tflite: our RAM beside the arena that TensorFlow Lite Micro reports, and instructions."""
    lines = [
        "| network | arena, bytes | RAM with inputs, outputs and states | TFLM's arena | ratio | constants and program "
        "| instructions, thousand: Cortex-M7 | Cortex-M55 |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    spec = find_spec("pymicro_wakeword")
    if spec is None or spec.origin is None:
        return []
    for path in sorted((Path(spec.origin).parent / "models").glob("*.tflite")):
        plan = csdfgen.plan(csdfgen.load(path), backend="native", goal="memory", count="flash")
        unit, theirs = whole_unit(plan, path.stem, ""), _arena_of_tflm(path)
        account = account_memory(plan, unit.tables, STACK)
        once = [one.tensor.nbytes for one in unit.outputs if unit.tables.list_in_place(one)]
        mine = account.ram - account.stack - sum(once)
        counts = (
            f"{_count_step(plan, path.stem, core):.0f}" for core in ("cortex-m7", "cortex-m55")
        )
        lines.append(
            f"| {path.stem} | {account.arena:,} | {mine:,} | {theirs:,} | {mine / theirs:.2f} | {account.flash:,} "
            f"| {' | '.join(counts)} |"
        )
    return lines


def _count_step(plan: Plan, name: str, target: str) -> float:
    """Thousands of instructions of a frame of a plan."""
    with tempfile.TemporaryDirectory() as folder:
        (*_, (_, plain, _, _)) = _executed([plan], name, target, Path(folder))["frames"]
    return float(plain * NANOSECONDS[target] / 1000)


def _arena_of_tflm(path: Path) -> int:
    """Bytes of the arena that TensorFlow Lite Micro uses, as it reports them."""
    text = (
        "import sys; from tflite_micro.python.tflite_micro import runtime\n"
        "runtime.Interpreter.from_file(sys.argv[1]).print_allocations()"
    )
    command = [sys.executable, "-c", text, str(path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r"Arena allocation total (\d+)", said.stdout + said.stderr)
    assert found
    return int(found[1])


# The page -----------------------------------------------------------------------------------------

HEAD = (
    "| network | target | plan | instructions, million | CMSIS-NN | ratio | worst layer | arena, KiB | maps and scratch | ratio "
    "| stack, bytes | code, KiB | CMSIS-NN | constants, KiB |"
)


def table(rows: Sequence[Measured]) -> list[str]:
    """Ours, and CMSIS-NN's where there are figures of it."""
    lines, known = [HEAD, f"|---|---|---|{'---:|' * 11}"], recorded()
    for one in rows:
        theirs = known.get((one.target, one.name), []) if one.form == "int8" else []
        figures, counts, code = dict(theirs), " | | ", ""
        maps = one.whole + figures.get("largest_buffer_bytes", 0)
        if theirs:
            (worst, layer), total = max(ratios(one, theirs)), figures["total"]
            counts = f"{total / MILLION:.2f} | {one.instructions / total:.2f} | {worst:.2f} ({layer.split()[0]})"
            code = f"{figures['text_bytes'] / KIB:.1f}"
        cells = (
            *(one.name, one.target, one.plan, f"{one.instructions / MILLION:.2f}", counts),
            *(f"{one.arena / KIB:.1f}", f"{maps / KIB:.1f}", f"{one.arena / maps:.2f}"),
            *(f"{one.stack:,}", f"{one.code / KIB:.1f}", code, f"{one.constants / KIB:.1f}"),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def draw(rows: Sequence[Measured]) -> bytes:
    """RAM against instructions: a colour for a core, a form for a network, filled if it is ours."""
    forms = dict(zip(NAMES, "os^", strict=True))
    colors = dict(zip(NANOSECONDS, ("#35618e", "#d98c00", "#2a9d5c", "#888888"), strict=True))
    known = recorded()
    with picture(7.2, 4.2) as (axes, out):
        for one in rows:
            color, form = colors[one.target], forms[one.name]
            axes.plot(one.instructions / MILLION, one.arena / KIB, form, color=color, markersize=7)
            theirs = dict(known.get((one.target, one.name), ()))
            if theirs and one.goal is None:
                x, y = theirs["total"] / MILLION, (one.whole + theirs["largest_buffer_bytes"]) / KIB
                axes.plot(x, y, form, color=color, markersize=7, fillstyle="none")
        for name, form in forms.items():
            axes.plot([], [], form, color="#444444", label=name)
        for target, color in colors.items():
            axes.plot([], [], "-", linewidth=3, color=color, label=target)
        axes.plot([], [], "o", color="#444444", fillstyle="none", label="CMSIS-NN, whole maps")
        axes.set(xscale="log", yscale="log")
        axes.set(xlabel="instructions of a frame, million", ylabel="RAM for maps and scratch, KiB")
        for axis, ticks in (
            (axes.xaxis, (1, 2, 5, 10, 20, 50, 100)),
            (axes.yaxis, (5, 10, 20, 50)),
        ):
            axis.set_ticks(ticks, [str(tick) for tick in ticks])
            axis.set_ticks([], minor=True)
        axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return out.getvalue()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_boards", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="networks of the zoo")
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS)
    parser.add_argument("--targets", nargs="+", choices=NANOSECONDS, default=tuple(NANOSECONDS))
    options = parser.parse_args(arguments)
    everything = not options.names and options.targets == tuple(NANOSECONDS)
    for form in options.formats:
        rows = []
        for name in options.names or NAMES:
            for target in options.targets:
                with tempfile.TemporaryDirectory() as folder:
                    rows += measure(name, form, target, Path(folder))
        lines = table(rows)
        print("\n".join(lines), flush=True)
        if everything:
            write_between(PAGE, f"boards-{form}", lines)
            if form == "int8":
                (ROOT / "docs" / "boards.svg").write_bytes(draw(rows))
    if find_spec("tflite_micro") and (lines := of_tensorflow()):
        print("\n".join(lines))
        if everything:
            write_between(PAGE, "boards-tflite", lines)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
