"""What do the paper's four formats cost in accuracy, on its two small examples? `make bench-formats`.

    python -m benchmarks.bench_formats [--json FILE]

Celsius to Fahrenheit by one neuron with exact weights (mean error in F over 1,273 degrees), and handwritten
digits by 784-30-10 with a ReLU (percent found of 1,500 pictures that were neither trained nor observed).
The models are ONNX in QDQ form, written with the paper's quantizers (csdfgen/paper/formats/dense.py) and by
`csdfgen.quantize`, run by csdfgen in both backends and by onnxruntime. Exit 1 where a format loses more than it may.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import numpy as np
import onnx

from csdfgen.errors import InputError, ToolError
from csdfgen.paper.formats import celsius, digits
from csdfgen.paper.formats.claims import fahrenheit
from csdfgen.paper.formats.dense import (
    Dense,
    build_model,
    observe_ranges,
    quantize_network,
    run_model,
)
from csdfgen.paper.formats.printed import FORMATS, TABLE_4_6, TABLE_4_7
from tests.quantized_models import session

__all__ = ["LARGEST_ERROR", "LARGEST_LOSS", "Result", "results"]

LARGEST_ERROR = {"float32": 0.001, "float16": 0.2, "int16": 0.02, "int8": 4.1}
"""Mean error in degrees Fahrenheit that a format may have."""

LARGEST_LOSS = 0.5
"""Points of accuracy that a format may lose against float32."""

WRITERS: Mapping[str, Callable[[str, tuple[Dense, ...], np.ndarray], onnx.ModelProto]] = {
    "paper": lambda format_, layers, x: build_model(format_, layers, observe_ranges(layers, x)),
    "csdfgen.quantize": quantize_network,
}

RUNNERS = ("numpy", "native", "onnxruntime")


@dataclass(frozen=True, slots=True)
class Result:
    """figure: mean error in F, or percent found; printed: the paper's; ok: whether it may be so."""

    example: str
    written: str
    format: str
    runner: str
    figure: float
    printed: float
    ok: bool


def _by_onnxruntime(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    made = session(model)
    kind = {"tensor(float)": np.float32, "tensor(float16)": np.float16}[made.get_inputs()[0].type]
    return np.concatenate([made.run(None, {"x": one[None]})[0] for one in x.astype(kind)])


def _figures(
    layers: tuple[Dense, ...],
    shown: np.ndarray,
    x: np.ndarray,
    judge: Callable[[np.ndarray], float],
) -> Iterator[tuple[str, str, str, float]]:
    """(who wrote it, format, runner, figure) of every runner that is here. shown: samples that ranges are
    taken from; x: those that are run.
    """
    for written, format_ in product(WRITERS, FORMATS):
        model = WRITERS[written](format_, layers, shown)
        for runner in RUNNERS:
            try:
                found = (
                    _by_onnxruntime(model, x)
                    if runner == "onnxruntime"
                    else run_model(model, x, runner)
                )
            except ToolError as error:
                print(f"{runner} is left out: {error}", file=sys.stderr)
                continue
            yield written, format_, runner, judge(found.astype(np.float64))


def _printed(row: tuple[float, ...]) -> Mapping[str, float]:
    return dict(zip(FORMATS, row, strict=True))


def results() -> Iterator[Result]:
    """Both examples; the digits are left out, with the reason on stderr, where there are no pictures."""
    x = celsius.degrees()
    wanted = fahrenheit(x)
    printed = _printed(TABLE_4_6)
    for written, format_, runner, error in _figures(
        celsius.NEURON, x, x, lambda found: float(np.abs(found - wanted).mean())
    ):
        ok = error <= LARGEST_ERROR[format_]
        yield Result("celsius", written, format_, runner, error, printed[format_], ok)
    try:
        data, layers = digits.pictures(), digits.train_network()
    except InputError as error:
        print(f"digits are left out: {error}", file=sys.stderr)
        return
    printed, whole = _printed(TABLE_4_7), 0.0
    shown = digits.calibration_pictures()
    for written, format_, runner, percent in _figures(
        layers, shown, data.test, digits.accuracy_percent
    ):
        whole = percent if format_ == "float32" else whole
        ok = percent >= whole - LARGEST_LOSS
        yield Result("digits", written, format_, runner, percent, printed[format_], ok)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the results")
    given = parser.parse_args()
    found = []
    print(
        "| example | written by | format | run by | ours | printed | as good as it must be |\n|---|---|---|---|---:|---:|---|"
    )
    for one in results():
        found.append(one)
        ok = "yes" if one.ok else "NO"
        print(
            f"| {one.example} | {one.written} | {one.format} | {one.runner} | {one.figure:.4f} | {one.printed:g} | {ok} |"
        )
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n")
    sys.exit(not all(one.ok for one in found))


if __name__ == "__main__":
    main()
