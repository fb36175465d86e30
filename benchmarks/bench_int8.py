"""How long does a frame of an int8 network take, compared with float and with others' int8? `make bench-int8`.

Networks of the zoo at their published sizes, made int8 by onnxruntime's own tool: uint8 activations and int8 weights
(QDQ, a scale for each channel of the weights). onnxruntime runs the fastest of four
forms of the network (QDQ and QOperator, a scale for each channel and for each tensor), openvino, where it is
installed, the faster one of the two in QDQ; int8 activations are in none of them, which take onnxruntime ten times as
long on x86. One thread each, thread time, frames in turn in one process, medians. Outputs are onnxruntime's to the
last bit, or there is no line. The table goes between markers into docs/int8.md, those of processors with AVX2 and with
AVX-512, and of `--backend numpy`, each between their own.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import onnx
from onnx.version_converter import convert_version
from threadpoolctl import threadpool_limits

import csdfgen
import runtime
from benchmarks.bench_speed import mean
from benchmarks.memory_frame import model_of
from benchmarks.pages import ROOT, machine, write_between
from benchmarks.rivals import BY_DEFAULT, rivals
from csdfgen.backends.registry import load_backend
from csdfgen.errors import CsdfgenError
from csdfgen.reading.zoo import build
from tests.quantized_models import feeds_of, prepared, quantized, session

PAGE = ROOT / "docs" / "int8.md"
MARKERS = {"avx2": "bench-int8-avx2", "avx512": "bench-int8", "numpy": "bench-int8-numpy"}
"""By what kernels are made of: a machine rewrites its own table."""

NAMES = (
    "resnet8",
    "mobilenet_v1_x0_25",
    "mobilenet_v2",
    "squeezenet1_1",
    "resnet18",
    "resnet50",
    "centerface 480x640",
)

_OPSET = 13
"""The least that has a scale for each channel of weights."""

KIB = 2**10

FORMS = (("QDQ", True), ("QDQ", False), ("QOperator", True), ("QOperator", False))
"""How onnxruntime's tool writes a network: its format, and whether each channel of the weights has a scale. The first is ours."""

_TRIED = 5
"""Frames of each form before the fastest is timed."""


@dataclass(frozen=True)
class Measured:
    """Seconds of a frame in int8 and float, ours and others'; bytes of the two arenas. form: the one in which onnxruntime
    is fastest. openvino: None where it is not installed.
    """

    name: str
    ours: float
    ours_float: float
    theirs: float
    form: str
    openvino: float | None
    theirs_float: float
    arena: int
    arena_float: int


def medians(functions: Sequence[Callable[[], Any]], repeats: int) -> list[float]:
    """Seconds of functions called in turn, so that a busy machine slows all alike; in another order each time, and each
    one twice, the second time on the clock: in a loop of its own it finds its data in the caches, too.
    """
    times: list[list[float]] = [[] for _ in functions]
    order, chance = list(range(len(functions))), random.Random(0)
    for _ in range(repeats):
        chance.shuffle(order)
        for one in order:
            functions[one]()
            start = time.thread_time()
            functions[one]()
            times[one].append(time.thread_time() - start)
    return [statistics.median(seconds) for seconds in times]


def _float(name: str) -> onnx.ModelProto:
    """A network by its name in the table."""
    if " " not in name:
        return build(f"zoo:{name}")
    model = model_of(name)
    constants = {one.name for one in model.graph.initializer}
    inputs = [one for one in model.graph.input if one.name not in constants]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    opset = next(one.version for one in model.opset_import if not one.domain)
    return convert_version(model, _OPSET) if opset < _OPSET else model


def _checked(name: str, program: Any, model: onnx.ModelProto, x: Mapping[str, np.ndarray]) -> None:
    """Raises CsdfgenError where outputs are not those of onnxruntime whose sums are exact."""
    exact = session(model, {"session.x64quantprecision": "1"})
    for wanted, got in zip(exact.run(None, x), program(x).values(), strict=True):
        if not np.array_equal(wanted, got):
            raise CsdfgenError("outputs differ from onnxruntime's", where=name)


def measure(name: str, repeats: int, backend: str) -> Measured:
    """Time one network. Raises CsdfgenError where outputs are not onnxruntime's."""
    model = prepared(_float(name))
    x = feeds_of(model)
    forms = {
        f"{form}, {'channels' if channels else 'tensors'}": quantized(
            model, form, per_channel=channels, activation_type="QUInt8"
        )
        for form, channels in FORMS
    }
    integers = next(iter(forms.values()))
    plans = [csdfgen.plan(csdfgen.load(one), backend=backend) for one in (integers, model)]
    ours, ours_float = (runtime.compile(plan) for plan in plans)
    _checked(name, ours, integers, x)
    sessions = {form: session(one, {}) for form, one in forms.items()}
    form = _fastest({form: partial(one.run, None, x) for form, one in sessions.items()})
    theirs, theirs_float = sessions[form], session(model, {})
    others = _openvinos(
        [one for form, one in forms.items() if form.startswith("QDQ")],
        x,
        {output.name: theirs_float.run([output.name], x)[0] for output in model.graph.output},
    )
    runs: list[Callable[[], Any]] = [
        lambda: ours(x),
        lambda: ours_float(x),
        lambda: theirs.run(None, x),
        lambda: theirs_float.run(None, x),
        *([others[_fastest(dict(enumerate(others)))]] if others else ()),
    ]
    own, own_float, fastest, their_float, *openvino = medians(runs, repeats)
    arenas = [plan.planned_bytes for plan in plans]
    return Measured(
        name, own, own_float, fastest, form, min(openvino, default=None), their_float, *arenas
    )


def _openvinos(
    models: Sequence[onnx.ModelProto], x: Mapping[str, np.ndarray], clean: Mapping[str, np.ndarray]
) -> list[Callable[[], Any]]:
    """Frames of openvino, one for each model; none where it is not installed, or is further from the outputs in float,
    `clean`, than twice what onnxruntime is.
    """
    frames: list[Callable[[], Any]] = []
    for model in models:
        found = session(model, {}).run([*clean], x)
        noise = max(
            float(np.abs(got - want).max() / np.abs(want).max())
            for got, want in zip(found, clean.values(), strict=True)
        )
        frames += [frame for _, frame in rivals(model, x, clean, [BY_DEFAULT], 2 * noise)]
    return frames


def _fastest(runs: Mapping[Any, Callable[[], Any]]) -> Any:
    """The key of the one that takes the least time in a few frames."""
    return min(zip(medians(list(runs.values()), _TRIED), runs, strict=True), key=itemgetter(0))[1]


def table(rows: Sequence[Measured], backend: str) -> list[str]:
    """Markdown, with the conditions of the measurement below."""
    lines = [
        "| ms (ours / theirs) | int8 | float | onnxruntime int8 | openvino int8 | onnxruntime float | arena, KiB, of float's |",
        "|---|---:|---:|---|---:|---:|---:|",
    ]
    for m in rows:
        rival = "" if m.openvino is None else f"{m.openvino * 1e3:.2f} ({m.ours / m.openvino:.2f})"
        cells = (
            m.name,
            f"{m.ours * 1e3:.2f}",
            f"{m.ours_float * 1e3:.2f} ({m.ours / m.ours_float:.2f})",
            f"{m.theirs * 1e3:.2f} ({m.ours / m.theirs:.2f}), {m.form}",
            rival,
            f"{m.theirs_float * 1e3:.2f}",
            f"{m.arena / KIB:.0f} / {m.arena_float / KIB:.0f} ({m.arena / m.arena_float:.3f})",
        )
        lines.append(f"| {' | '.join(cells)} |")
    by_float, by_theirs = (
        mean([m.ours / getattr(m, other) for m in rows]) for other in ("ours_float", "theirs")
    )
    by_openvino = [m.ours / m.openvino for m in rows if m.openvino is not None]
    arenas = mean([m.arena / m.arena_float for m in rows])
    lines.append(
        f"| **geometric mean** | | **{by_float:.2f}** | **{by_theirs:.2f}** "
        f"| {f'**{mean(by_openvino):.2f}**' if by_openvino else ''} | | **{arenas:.3f}** |"
    )
    code = load_backend(backend).code
    return [
        *lines,
        "",
        f"Thread time of one thread, interleaved frames, medians; kernels for {code}; {machine('onnxruntime', 'openvino')}.",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_int8", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="networks of the zoo; those of the page, and the page is written, if there are none",
    )
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--backend", choices=("native", "numpy"), default="native")
    options = parser.parse_args(arguments)
    rows = []
    with threadpool_limits(1):
        for name in options.names or NAMES:
            rows.append(measure(name, options.repeats, options.backend))
            m = rows[-1]
            print(
                f"{m.name}: int8 {m.ours * 1e3:.2f} ms, float {m.ours_float * 1e3:.2f} ms, "
                f"onnxruntime {m.theirs * 1e3:.2f} ms ({m.form})",
                flush=True,
            )
    lines = table(rows, options.backend)
    print("\n" + "\n".join(lines))
    there = MARKERS.get(load_backend(options.backend).code)
    if not options.names and there is not None:
        write_between(PAGE, there, lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
