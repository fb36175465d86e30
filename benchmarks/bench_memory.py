"""How much memory does a frame take beside onnxruntime's? Everything alive, counted. `make bench-memory`.

    python -m benchmarks.bench_memory [NETWORK ...] [--goal balanced] [--rows R] [--zoo]
                                      [--csv FILE] [--svg FILE] [--markdown FILE] [--write]

NETWORK: a light network of the onnx package, "centerface 480x640", zoo:NAME, or a model file. Each
side runs in a process of its own, one after the other, under a hook that counts what is allocated
(benchmarks/heap.py): ours, once for every goal, then onnxruntime without and with its arena, and
openvino where it is installed. A frame's bytes are those of the arena and all that is allocated
beside it; fresh arrays of outputs are among the latter and not added again. `--write` renews
docs/memory.md with its CSV and picture, and README's summary. Exit 1 if outputs differ from
onnxruntime's, or a frame touches other bytes of the arena than planned.
"""

from __future__ import annotations

import argparse
import csv
import inspect
import io
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np

import csdfgen
from benchmarks.heap import HeapError, NoCompilerError, asked, compiled_hook
from benchmarks.memory_picture import Bar, Group, picture
from benchmarks.pages import ROOT, between, machine, write_between
from csdfgen.errors import InputError
from csdfgen.files import packaged_file, write_bytes
from runtime.reference import MismatchError, compare
from tests.networks import LIGHT, TRAINED
from zoo_models import ZOO

__all__ = ["NAMES", "Frame", "from_csv", "markdown", "mean_ratio", "summary", "to_csv"]

PAGE = ROOT / "docs" / "memory.md"
README = ROOT / "README.md"
CSV = ROOT / "docs" / "memory.csv"
PICTURE = ROOT / "docs" / "memory.svg"
MARKER = "memory"

NAMES = (*LIGHT, "centerface 480x640", "centerface 1088x1920")

MIB = 2**20

FRAME = "benchmarks.memory_frame"

DERIVED = ("total", "ratio")
"""Columns of the CSV that follow from the others."""


@dataclass(frozen=True, slots=True)
class Frame:
    """All bytes of one network's frame, ours planned for one goal; None where nobody told.

    onnxruntime, onnxruntime_arena: the most alive in `run()` (measured). openvino: growth of its
    process (measured). whole_layers: modelled. lower_bound, peak_live, arena, workspace (in the
    arena): planned; optimal: whether the order of firings is proved to be best. touched: bytes of
    the arena that a frame writes (measured). heap: the most allocated beside the arena in a frame,
    outputs included (measured). outputs: of them, arrays that the caller gets (measured).
    planned_outputs: the plan's own figure of them, where outputs lie beside its arena.
    """

    network: str
    goal: str
    onnxruntime: int
    onnxruntime_arena: int
    openvino: int | None
    whole_layers: int
    lower_bound: int | None
    peak_live: int
    optimal: bool | None
    arena: int
    workspace: int
    touched: int
    heap: int
    outputs: int
    planned_outputs: int | None = None

    def __post_init__(self) -> None:
        """What cannot be true is no measurement. Raises HeapError."""
        if self.touched != self.arena:
            raise HeapError(
                f"{self.network}: a frame touches {self.touched:,} bytes of the arena, planned are {self.arena:,}"
            )
        if self.planned_outputs not in (None, self.outputs):
            raise HeapError(
                f"{self.network}: a frame returns {self.outputs:,} bytes, planned are {self.planned_outputs:,}"
            )
        if self.heap < self.outputs:
            raise HeapError(
                f"{self.network}: the hook saw {self.heap:,} bytes, the outputs alone have {self.outputs:,}"
            )

    @property
    def total(self) -> int:
        """All of a frame beside the caller's input: the arena, and what is allocated beside it."""
        return self.arena + self.heap

    @property
    def beside(self) -> int:
        """What is allocated beside arena and outputs."""
        return self.heap - self.outputs

    @property
    def ratio(self) -> float:
        """onnxruntime's bytes, its arena off, over all of ours."""
        return self.onnxruntime / self.total


def mean_ratio(frames: Iterable[Frame]) -> float:
    """Geometric mean of the ratios.

    >>> mean_ratio([])
    1.0
    """
    logs = [log(frame.ratio) for frame in frames]
    return exp(sum(logs) / len(logs)) if logs else 1.0


# Measuring --------------------------------------------------------------------------------------


def measure(name: str, goals: Sequence[str], rows: str | None, hook: Path) -> list[Frame]:
    """One network: onnxruntime's and openvino's memory once, ours for every goal.

    Raises HeapError where a side fails; MismatchError where outputs are not onnxruntime's.
    """
    with tempfile.TemporaryDirectory() as folder:
        sides: dict[str, tuple[str, tuple[str, ...]]] = {
            "onnxruntime": ("onnxruntime", ()),
            "arena": ("onnxruntime", ("--arena",)),
            "openvino": ("openvino", ()),
        }
        heights = ("--rows", rows) if rows else ()
        for goal in goals:
            sides[_ours(goal)] = ("ours", (*heights, *(("--goal", goal) if goal else ())))
        told = {}
        for side, (kind, options) in sides.items():
            written = str(Path(folder, f"{side}.npz"))
            try:
                told[side] = asked(hook, FRAME, [kind, name, written, *options])
            except HeapError as error:
                raise HeapError(f"{name}: {kind}{' '.join(('', *options))}: {error}") from None
        for goal in goals:
            _compared(name, Path(folder, f"{_ours(goal)}.npz"), Path(folder, "onnxruntime.npz"))
    return [frame_of(name, goal, told) for goal in goals]


def frame_of(name: str, goal: str, told: Mapping[str, Mapping[str, Any]]) -> Frame:
    """A frame from what the processes told: "onnxruntime", "arena", "openvino", "ours GOAL"."""
    ours = told[_ours(goal)]
    figures = ours["figures"]
    optimal = figures.get("optimal")
    return Frame(
        network=name,
        goal=goal or "default",
        onnxruntime=told["onnxruntime"]["heap"],
        onnxruntime_arena=told["arena"]["heap"],
        openvino=told["openvino"]["heap"],
        whole_layers=figures["whole_layer_live"],
        lower_bound=figures.get("lower_bound"),
        peak_live=figures["peak_live"],
        optimal=None if optimal is None else bool(optimal),
        arena=ours["planned"],
        workspace=figures["workspace"],
        touched=ours["touched"],
        heap=ours["heap"],
        outputs=ours["outputs"],
        planned_outputs=figures.get("outputs"),
    )


def _ours(goal: str) -> str:
    return f"ours {goal}"


def _compared(name: str, ours: Path, theirs: Path) -> None:
    with np.load(ours) as got, np.load(theirs) as wanted:
        wrong = [key for key in wanted.files if not compare(key, got[key], wanted[key]).ok]
    if wrong:
        raise MismatchError(f"{', '.join(wrong)} differ from onnxruntime's", where=name)


def available(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Networks that can be had here, and a line for each that cannot: its package is missing."""
    found, missing = [], []
    for name in names:
        kind, _, size = name.partition(" ")
        try:
            if kind in TRAINED and size:
                packaged_file(TRAINED[kind].distribution, TRAINED[kind].file)
            found.append(name)
        except InputError as error:
            missing.append(f"{name} is left out: {error}")
    return found, missing


# Tables -----------------------------------------------------------------------------------------


def to_csv(frames: Sequence[Frame]) -> str:
    """One line a frame, bytes; what nobody told is empty. The last two columns follow from others."""
    text = io.StringIO()
    names = [*(field.name for field in fields(Frame)), *DERIVED]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for frame in frames:
        writer.writerow({**asdict(frame), "total": frame.total, "ratio": f"{frame.ratio:.4f}"})
    return text.getvalue()


def from_csv(text: str) -> list[Frame]:
    """The frames in a CSV of `to_csv`. Raises ValueError for a line that has none."""
    words = {"network", "goal"}
    frames = []
    for line in csv.DictReader(io.StringIO(text)):
        values: dict[str, Any] = {
            key: cell if key in words else None if cell == "" else int(cell)
            for key, cell in line.items()
            if key not in ("optimal", *DERIVED)
        }
        values["optimal"] = {"": None, "True": True, "False": False}[line["optimal"]]
        frames.append(Frame(**values))
    return frames


def _mib(size: int | None) -> str:
    return "" if size is None else f"{size / MIB:.3f}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Markdown, without columns that are empty."""
    body = [head, *rows]
    kept = [k for k in range(len(head)) if any(row[k] for row in body[1:])]
    lines = [f"| {' | '.join(row[k] for k in kept)} |" for row in body]
    return [lines[0], f"|---|{'---:|' * (len(kept) - 1)}", *lines[1:]]


def markdown(frames: Sequence[Frame], conditions: str) -> list[str]:
    """Both tables, in MiB, a line for each network with all goals; then how they came about."""
    goals = list(dict.fromkeys(frame.goal for frame in frames))
    networks: dict[str, list[Frame]] = {}
    for frame in frames:
        networks.setdefault(frame.network, []).append(frame)
    means = [f"**{mean_ratio(one for one in frames if one.goal == goal):.2f}**" for goal in goals]
    theirs = ("onnxruntime", "arena on", "openvino", "whole layers")
    ours = [head for goal in goals for head in (f"csdfgen, {goal}", "factor")]
    lines = _table(
        ("MiB", *theirs, *ours),
        [
            *((name, *_compared_cells(of)) for name, of in networks.items()),
            (
                "**geometric mean**",
                *[""] * len(theirs),
                *(one for mean in means for one in ("", mean)),
            ),
        ],
    )
    heads = (f"{goal}: bound, peak, arena (workspace)" for goal in goals)
    parts = _table(
        ("MiB", *heads, "outputs", "all else"),
        (
            (name, *map(_arena_cell, of), _mib(of[0].outputs), _mib(of[0].beside))
            for name, of in networks.items()
        ),
    )
    return [*lines, "", "What csdfgen's bytes are:", "", *parts, "", conditions]


def _compared_cells(of: Sequence[Frame]) -> list[str]:
    """A network beside others: their bytes, and ours for every goal."""
    first = of[0]
    theirs = (first.onnxruntime, first.onnxruntime_arena, first.openvino, first.whole_layers)
    ours = (cell for frame in of for cell in (_mib(frame.total), f"{frame.ratio:.2f}"))
    return [*map(_mib, theirs), *ours]


def _arena_cell(frame: Frame) -> str:
    """Of the arena: the lower bound if one is known, the peak, the arena, and the workspace in it."""
    sizes = (frame.lower_bound, frame.peak_live, frame.arena)
    return (
        f"{', '.join(_mib(size) for size in sizes if size is not None)} ({_mib(frame.workspace)})"
    )


def summary(frames: Sequence[Frame]) -> list[str]:
    """README's sentence for every goal."""
    lines = []
    for goal in dict.fromkeys(frame.goal for frame in frames):
        ratios = sorted(frame.ratio for frame in frames if frame.goal == goal)
        mean = mean_ratio([frame for frame in frames if frame.goal == goal])
        lines.append(
            f"- `--goal {goal}`: **{mean:.1f} times less** memory than onnxruntime without its arena (geometric mean "
            f"of {len(ratios)} networks; {ratios[0]:.1f} to {ratios[-1]:.1f})."
        )
    return lines


def groups(frames: Sequence[Frame]) -> list[Group]:
    """The picture's bars: a group a network, ours once for every goal."""
    found = []
    for name in dict.fromkeys(frame.network for frame in frames):
        mine = [frame for frame in frames if frame.network == name]
        first = mine[0]
        bars = [Bar("onnxruntime", first.onnxruntime), Bar("whole layers", first.whole_layers)]
        bars += [
            Bar("csdfgen" if frame.goal == "default" else f"csdfgen, {frame.goal}", frame.total)
            for frame in mine
        ]
        found.append(Group(name, tuple(bars)))
    return found


# The command ------------------------------------------------------------------------------------


def _default_goals() -> tuple[str, ...]:
    """Both goals of memory, where plans have goals; else the one plan that there is."""
    return ("balanced", "memory") if "goal" in inspect.signature(csdfgen.plan).parameters else ("",)


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bench_memory",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NETWORK", help=f"of: {', '.join(NAMES)}")
    parser.add_argument("--zoo", action="store_true", help="all networks of the zoo as well")
    parser.add_argument("--goal", action="append", help="balanced, memory; may be given twice")
    parser.add_argument("--rows", help="slab heights, as of csdfgen run")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write every figure, in bytes")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write the picture")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables")
    parser.add_argument("--write", action="store_true", help=f"renew {PAGE.relative_to(ROOT)}")
    parser.add_argument(
        "--redraw", action="store_true", help="measure nothing, renew the page from its CSV"
    )
    options = parser.parse_args(arguments)
    if options.write and (options.names or options.rows or options.zoo):
        parser.error("--write is for the networks of the page, at their default heights")
    return options


def _conditions(frames: Sequence[Frame], missing: Sequence[str]) -> str:
    others = ["openvino"] if any(frame.openvino is not None for frame in frames) else []
    text = (
        "One image, float32, one thread, each program in its own process; outputs equal. "
        f"MiB = 2^20 bytes. {machine('onnxruntime', *others)}."
    )
    return " ".join([text, *(f"{line}." for line in missing)])


def _line(frame: Frame) -> str:
    bound = "" if frame.lower_bound is None else f", bound {_mib(frame.lower_bound)}"
    return (
        f"{frame.network}, {frame.goal}: {_mib(frame.total)} MiB (arena {_mib(frame.arena)}, peak {_mib(frame.peak_live)}"
        f"{bound}, outputs {_mib(frame.outputs)}, beside {_mib(frame.beside)}) | onnxruntime {_mib(frame.onnxruntime)}, "
        f"arena on {_mib(frame.onnxruntime_arena)} | whole layers {_mib(frame.whole_layers)} | ratio {frame.ratio:.2f}"
    )


def renew(frames: Sequence[Frame], conditions: str) -> None:
    """Write docs/memory.md, its picture, and README's summary."""
    write_between(PAGE, MARKER, markdown(frames, conditions))
    write_between(README, MARKER, summary(frames))
    write_bytes(PICTURE, picture(groups(frames)))


def main(arguments: Sequence[str] | None = None) -> int:
    options = _arguments(arguments)
    if options.redraw:
        conditions = between(PAGE, MARKER).strip().splitlines()[-1]
        renew(from_csv(CSV.read_text()), conditions)
        return 0
    asked_for = options.names or list(NAMES)
    if options.zoo:
        asked_for = [*options.names, *(f"zoo:{name}" for name in ZOO)]
    names, missing = available(asked_for)
    for line in missing:
        print(line, file=sys.stderr)
    goals = options.goal or _default_goals()
    frames: list[Frame] = []
    trouble = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            hook = compiled_hook(Path(folder))
        except NoCompilerError as error:
            print(f"skipped: {error}", file=sys.stderr)
            return 0
        for name in names:
            try:
                found = measure(name, goals, options.rows, hook)
            except (HeapError, MismatchError) as error:
                trouble.append(name)
                print(error, file=sys.stderr)
                continue
            frames += found
            for frame in found:
                print(_line(frame), flush=True)
    if not frames:
        return int(bool(trouble))
    lines = markdown(frames, _conditions(frames, missing))
    print("\n" + "\n".join(lines))
    table = to_csv(frames).encode()
    files = {
        options.csv: table,
        options.markdown: ("\n".join(lines) + "\n").encode(),
        options.svg: picture(groups(frames)),
    }
    try:
        for path, content in files.items():
            if path is not None:
                write_bytes(path, content)
    except InputError as error:
        print(error, file=sys.stderr)
        return 1
    if options.write and not trouble:
        write_bytes(CSV, table)
        renew(frames, lines[-1])
    return int(bool(trouble))


if __name__ == "__main__":
    sys.exit(main())
