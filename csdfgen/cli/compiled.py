"""`csdfgen run FILE.csdfgen`: a compiled program, timed, with the memory of its process."""

from __future__ import annotations

import json
import statistics
import time
from typing import TYPE_CHECKING

import numpy as np

from csdfgen.backends.native.opened import CompiledProgram
from csdfgen.cli.options import refuse
from csdfgen.cli.terminal import plain, say, say_json
from csdfgen.errors import option
from csdfgen.model.formats import Format
from csdfgen.model.network import Network, Output, Tensor
from csdfgen.model.units import counted
from runtime.images import check_output_path, read_inputs, write_outputs

if TYPE_CHECKING:
    from csdfgen.cli.options import Asked
    from csdfgen.cli.run import Run

__all__ = ["run_compiled"]

_OF_MODELS = ("plan", "pareto", "check", "trace", "layers")


def run_compiled(command: Run, asked: Asked) -> dict[str, np.ndarray]:
    """Execute frames of a compiled program, print the report, return the outputs. Raises InputError."""
    alone = f"{command.model} runs as it was compiled; leave {{}} out, or give the model"
    refuse((getattr(command, name), alone.format(option(name))) for name in _OF_MODELS)
    refuse((True, alone.format(typed[0])) for typed in asked.typed())
    refuse([(command.threads > 1, alone.format(option("threads")))])
    frame = CompiledProgram(command.model)
    network = _ends_of(frame)
    if command.output is not None:
        check_output_path(command.output, network)
    x = read_inputs(tuple(command.input or ()), network, command.pixels.read(), command.seed)
    times, outputs = list[float](), frame(x)
    for _ in range(command.repeat):
        start = time.perf_counter()
        outputs = frame(x)
        times.append(1e3 * (time.perf_counter() - start))
    if command.output is not None:
        write_outputs(command.output, outputs)
    figures, latency = frame.about["memory"], statistics.median(times)
    told = {
        "model": command.model, "network": frame.about["network"], "arena_bytes": frame.arena_bytes,
        "constants_bytes": frame.constants_bytes, "latency_ms": latency, "repeat": command.repeat, "figures": figures,
    }  # fmt: skip
    if command.as_json:
        say_json(told)
        return outputs
    say(
        f"{plain(command.model)}: {plain(json.dumps(frame.about['network'])[1:-1])}, compiled, "
        f"{counted(frame.about['firings'], 'firing')}\n",
        f"constants  {frame.constants_bytes:,} bytes, mapped",
        f"arena      {frame.arena_bytes:,} bytes",
        f"latency    {latency:,.1f} ms, {counted(command.repeat, 'frame')}, 1 thread",
    )
    if command.output is not None:
        say(f"written    {command.output}: {', '.join(map(plain, outputs))}")
    return outputs


def _ends_of(frame: CompiledProgram) -> Network:
    """A network of the inputs and outputs alone, as readers of files take one."""
    batch = frame.about["batch"]
    inputs = tuple(
        Tensor(name, (shape[0] // batch, *shape[1:]) if shape else (), Format(dtype.name))
        for name, (shape, dtype) in frame.inputs.items()
    )
    outputs = tuple(Output(name, None) for name in frame.outputs)
    return Network(frame.about["network"], inputs, outputs, (), batch)
