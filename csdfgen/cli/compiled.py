"""`csdfgen run` of compiled programs: of a file, and of the cache, where the first run of a model leaves its own.

A program of the cache runs without onnx and without a planner. It is of the same files of a model, whose states it tells, and
of the same options, sources and processor, a digest of which is its name; and it tells the report of the first run.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import runtime
from csdfgen.backends import COMPILES
from csdfgen.cache import get_folder, limit, prune, release, use
from csdfgen.cli.options import refuse
from csdfgen.cli.terminal import escape, say, say_json
from csdfgen.errors import CsdfgenError, ToolError, option, prefix_errors
from csdfgen.files import read_state
from csdfgen.model.formats import Format
from csdfgen.model.network import Network, Output, Tensor
from csdfgen.model.units import pluralize
from runtime.branches import count_taken_since, have_same_branches
from runtime.drawing import draw_values
from runtime.images import check_output_path, read_inputs, write_outputs
from runtime.resident import describe_process, read_mapping, read_resident_bytes

if TYPE_CHECKING:
    from csdfgen.cli.options import Asked
    from csdfgen.cli.run import Run
    from csdfgen.program.steps import CompiledFrame
    from runtime.session import Executable


_LOG = logging.getLogger(__name__)

_OF_MODELS = ("plan", "pareto", "check", "trace", "layers")
_PACKAGES = ("csdfgen", "runtime", "schedules", "zoo_models")
_OF_PROCESSOR = ("vendor_id", "cpu family", "model", "stepping", "flags", "CPU", "Features")
"""Lines of /proc/cpuinfo."""


def run_compiled(command: Run, asked: Asked) -> dict[str, np.ndarray]:
    """Execute frames of a compiled program, print the report, return the outputs. Raises InputError."""
    alone = f"{command.model} runs as it was compiled; leave {{}} out, or give the model"
    refuse((getattr(command, name), alone.format(option(name))) for name in _OF_MODELS)
    refuse((True, alone.format(typed[0])) for typed in asked.typed())
    refuse([(command.threads > 1, alone.format(option("threads")))])
    libraries, path = read_resident_bytes(), Path(command.model)
    frame = runtime.open(path, model=command.compiled_of)
    measured, mapping, outputs = _measured(command, frame, path, libraries)
    if command.as_json:
        sizes = {"arena_bytes": frame.arena_bytes, "constants_bytes": frame.constants_bytes}
        told = {"network": frame.about["network"], **sizes, "figures": frame.about["memory"]}
        say_json({"model": command.model, **told, **measured, "mapping": mapping})
        return outputs
    say(
        f"{escape(command.model)}: {escape(json.dumps(frame.about['network'])[1:-1])}, compiled, "
        f"{pluralize(frame.about['firings'], 'firing')}\n",
        f"constants  {frame.constants_bytes:,} bytes, mapped",
        f"arena      {frame.arena_bytes:,} bytes",
        f"latency    {measured['latency_ms']:,.1f} ms, {pluralize(command.repeat, 'frame')}, "
        f"{pluralize(frame.about['threads'], 'thread')}",
        *(f"branch     {line}" for line in branch_lines(measured["branches"])),
    )
    show_process(measured["process"])
    if mapping:
        there, share = (f"{mapping[name] / 2**20:,.1f}" for name in ("resident", "proportional"))
        say(f"mapping    {there} MiB resident, {share} of them this process's share (proportional)")
    if command.output is not None:
        say(f"written    {command.output}: {', '.join(map(escape, outputs))}")
    return outputs


def show_process(process: Mapping[str, int]) -> None:
    """The memory of this process on a terminal."""
    if process:
        peak, *parts = (f"{name} {size / 2**20:,.1f}" for name, size in process.items())
        say(f"process    {peak} MiB resident: {', '.join(parts)}")


def _measured(
    command: Run, frame: CompiledFrame, path: Path, libraries: int
) -> tuple[dict[str, Any], dict[str, int], dict[str, np.ndarray]]:
    """What is measured of the frames that a command asks for, what is resident of the file, and the outputs, which are written
    if they are to be. libraries: bytes that were resident before the program was opened. Raises InputError.
    """
    network = _ends_of(frame)
    if command.output is not None:
        check_output_path(command.output, network)
    if command.input:
        x = read_inputs(command.input, network, command.pixels.read(_formats(frame)))
    else:
        with prefix_errors(command.model):
            x = draw_values(frame.inputs, frame.about["inputs"], command.seed)
    times, outputs = list[float](), frame(x)
    before = frame.branches
    for _ in range(command.repeat):
        outputs = {}
        start = time.perf_counter()
        outputs = frame(x)
        times.append(1e3 * (time.perf_counter() - start))
    if command.output is not None:
        write_outputs(command.output, outputs)
    mapping, written = read_mapping(path), sum(one.nbytes for one in outputs.values())
    constants = mapping.get("resident", frame.constants_bytes)
    process = describe_process(libraries, constants, frame.arena_bytes, written)
    taken = count_taken_since(frame.branches, before).items()
    facts = {
        "latency_ms": statistics.median(times), "repeat": command.repeat, "process": process, "threads": frame.about["threads"],
        "branches": {name: {"then": yes, "else": no} for name, (yes, no) in taken},
    }  # fmt: skip
    return facts, mapping, outputs


def _ends_of(frame: CompiledFrame) -> Network:
    """A network of the inputs and outputs alone, as readers of files take one."""
    batch = frame.about["batch"]
    inputs = tuple(
        Tensor(name, (shape[0] // batch, *shape[1:]) if shape else (), Format(dtype.name))
        for name, (shape, dtype) in frame.inputs.items()
    )
    outputs = tuple(Output(name, None) for name in frame.outputs)
    return Network(frame.about["network"], inputs, outputs, (), batch)


def _formats(frame: CompiledFrame) -> dict[str, Format]:
    """How values become the integers that inputs take, of a program of the cache."""
    known: Mapping[str, Any] = frame.about.get("formats", {})
    return {name: Format(one[0], tuple(one[1]), tuple(one[2])) for name, one in known.items()}


# The cache --------------------------------------------------------------------------------------


def find_program_file(command: Run, asked: Asked, suffix: str = ".csdfgen") -> Path | None:
    """The file of the program that a command runs, or of the plan of its stream; None for one that needs the network, or for
    which nothing is kept.
    """
    given = asked.given
    if (
        os.name != "posix"
        or any(getattr(command, name) for name in _OF_MODELS)
        or command.precision != "float32"
        or given.get("backend", COMPILES) != COMPILES
        or given.get("result") == "streamed"
        or given.get("weights") == "copied"
    ):
        return None
    model = command.model
    if not model.startswith("zoo:"):
        model = str(Path(model).absolute())
    options: list[Any] = [sorted(one.items()) for one in (given, asked.shapes, asked.fixed)]
    if command.stream is not None:
        options += [command.stateful, command.columns, example_sizes(asked)]
    parts = repr([model, options, asked.batch, asked.table, command.threads, *_surroundings()])
    name = hashlib.sha256(parts.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    with suppress(ToolError):
        return get_folder("programs") / f"{name}{suffix}"
    return None


def _surroundings() -> Iterator[Any]:
    """What a program is made by: versions, the compiler that is asked for, the processor, and all sources."""
    yield from (sys.version, np.__version__, os.environ.get("CC"), platform.machine())
    with suppress(OSError), Path("/proc/cpuinfo").open() as file:
        first = file.read(1 << 14).partition("\n\n")[0]
        yield [line for line in first.splitlines() if line.startswith(_OF_PROCESSOR)]
    for package in _PACKAGES:
        for folder, _, names in os.walk(Path(__file__).parents[2] / package):
            for name in sorted(names):
                if not name.endswith(".pyc"):
                    found = Path(folder, name).stat()
                    yield folder, name, found.st_size, found.st_mtime_ns


def example_sizes(asked: Asked) -> dict[str, list[int]]:
    """The sizes of what is fed, for free ones of a model (JSON)."""
    return {name: [*one.shape] for name, one in asked.example.items()}


def run_kept(
    command: Run, path: Path, asked: Asked
) -> tuple[dict[str, Any], dict[str, Any], dict[str, np.ndarray]] | None:
    """Execute frames of the program of the cache; the report as in the first run, with what was measured now, what is said
    besides, and the outputs. None if there is no program of the model as it is now. Raises InputError.
    """
    libraries = read_resident_bytes()
    if not use(path):
        return None
    try:
        frame = runtime.open(path)
        same = all(read_state(file) == was for file, was in frame.about["files"].items())
    except (CsdfgenError, OSError):  # damaged, or without its model
        same = False
    if same and frame.about["sizes"] not in ({}, example_sizes(asked)):
        release(path)
        return None
    if not same:
        release(path)
        path.unlink(missing_ok=True)
        return None
    measured, mapping, outputs = _measured(command, frame, path, libraries)
    first = frame.about["report"]
    report = {**first, **measured, "model": command.model}
    if not have_same_branches(*_branches(first), *_branches(report)):
        report["measured_bytes"] = None  # what was touched then says nothing of now
    report["weights"]["resident_bytes"] = mapping.get("resident")
    return report, frame.about["told"], outputs


def _branches(report: Mapping[str, Any]) -> tuple[dict[str, tuple[int, int]], int]:
    """The branches that were taken in the frames of a report in JSON, and how many frames these are."""
    known = report["branches"].items()
    return {name: (one["then"], one["else"]) for name, one in known}, report["repeat"]


def branch_lines(branches: Mapping[str, Mapping[str, int]]) -> list[str]:
    """What a terminal says of the branches that a report in JSON has."""
    return [
        f"'{escape(name)}': then {one['then']:,}, else {one['else']:,} times in the timed frames"
        for name, one in branches.items()
    ]


def keep(path: Path, frame: Executable, about: Mapping[str, Any]) -> None:
    """Put a program into the cache, if it is for native code alone, and there is room for it. about: what it tells."""
    try:
        if frame.weight_bytes[0] > limit() // 2:
            return
        with tempfile.TemporaryDirectory(prefix="build-", dir=path.parent) as folder:
            made = Path(folder) / path.name
            frame.save(made, about)
            made.chmod(0o600)
            made.replace(path)
        use(path)
        prune()
    except (CsdfgenError, OSError) as error:
        _LOG.info("the program is not kept: %s", error)
