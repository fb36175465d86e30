"""The node cases of onnx.backend.test: which pass, which are skipped and why. `python -m
tests.node_cases_report` prints them.

A case is a model of one node (or of the nodes that its function expands to) with inputs and
outputs. It is loaded as any model, with the operands that an operator needs as constants turned
into initializers, and run in slabs of one row, of two, and whole.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from csdfgen.errors import CsdfgenError, UnsupportedOperatorError
from csdfgen.ops import OPERATORS
from csdfgen.reading.loader import load
from runtime.reference import fill_array
from tests.simple_executor import execute

HEIGHTS = (1, 2, 10**9)

DISAGREE = "onnxruntime and onnx's case disagree (align_corners with a fractional output length); csdfgen follows onnxruntime"

SHAPED = "onnxruntime and onnx's case disagree (indices are positions in output_shape); csdfgen follows onnxruntime"

SKIPPED_BY_NAME: Mapping[str, str] = {
    "test_maxunpool_export_with_output_shape": SHAPED,
    "test_resize_downsample_scales_linear_align_corners": DISAGREE,
    "test_resize_downsample_scales_cubic_align_corners": DISAGREE,
}

REASONS: tuple[tuple[str, str], ...] = (
    (r"uses opset \d+, the oldest", "opset older than 7"),
    (r"is of opset 8, 9 is the oldest", "opset older than 9"),
    (r"element type \S+ is not supported", "unsupported element type"),
    (r"to=\d+ is not one of", "unsupported element type"),
    (r"(type|zero point is) u?int4", "unsupported element type"),
    (r"is not a tensor|is a sequence|a sequence is needed", "operand that is not a tensor"),
    (r"training_mode", "training mode"),
    (
        r"every size is at least 1|no elements|at least one element|without elements|would be empty",
        "empty tensor",
    ),
)
"""What a refusal may say -> the reason for the skip. Any other refusal of an operator of the table
is a failure.
"""

EXPANDED_REASONS: tuple[tuple[str, str], ...] = (
    *REASONS,
    (r"it must be a constant", "computed operand that must be a constant"),
)


@dataclass(frozen=True)
class Outcome:
    """What became of a case. reason: "" if it passed."""

    name: str
    op_type: str
    state: str
    reason: str = ""


@lru_cache(maxsize=1)
def cases() -> Mapping[str, list[Any]]:
    """All cases by operator; those of several nodes under ""."""
    from onnx.backend.test.loader import load_node_model_tests

    found: dict[str, list[Any]] = defaultdict(list)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in load_node_model_tests():
            assert case.model is not None
            nodes = case.model.graph.node
            found[nodes[0].op_type if len(nodes) == 1 else ""].append(case)
    return found


def outcome(case: Any) -> Outcome:
    """Load and run one case."""
    nodes = case.model.graph.node
    op_type = nodes[0].op_type if len(nodes) == 1 else ""
    if case.name in SKIPPED_BY_NAME:
        return Outcome(case.name, op_type, "skipped", SKIPPED_BY_NAME[case.name])
    try:
        for inputs, outputs in case.data_sets:
            _run(case, inputs, outputs)
    except UnsupportedOperatorError as error:
        if re.search("Sequence|Optional", error.message):
            return Outcome(case.name, op_type, "skipped", "operand that is not a tensor")
        return Outcome(
            case.name, op_type, "failed" if op_type else "skipped", error.message.partition(" (")[0]
        )
    except CsdfgenError as error:
        for pattern, reason in REASONS if op_type else EXPANDED_REASONS:
            if re.search(pattern, error.message):
                return Outcome(case.name, op_type, "skipped", reason)
        return Outcome(case.name, op_type, "failed", str(error))
    except AssertionError as error:
        return Outcome(case.name, op_type, "failed", " ".join(str(error).split())[:200])
    return Outcome(case.name, op_type, "passed")


def _run(case: Any, inputs: list[Any], outputs: list[Any]) -> None:
    names = [i.name for i in case.model.graph.input]
    feeds = {name: _array(value) for name, value in zip(names, inputs, strict=True)}
    expected = {
        o.name: _array(value) for o, value in zip(case.model.graph.output, outputs, strict=True)
    }
    constants = _operands_that_must_be_constant(case.model, feeds)
    model = _with_constants(case.model, {name: feeds.pop(name) for name in constants})
    network = _loaded(model, feeds, case)
    for height in HEIGHTS:
        found = execute(network, feeds, height)
        for name, got in found.items():
            want = expected[name]
            if name in network.found_outputs:
                want = fill_array(want, got.shape)
            assert got.dtype == want.dtype and got.shape == want.shape, (
                got.dtype,
                want.dtype,
                got.shape,
                want.shape,
            )
            # a few roundings to 11 bits, or to 8
            tolerance = {"float16": 5e-3, "bfloat16": 3e-2}.get(want.dtype.name, case.rtol)
            np.testing.assert_allclose(
                got,
                want,
                rtol=tolerance,
                atol=max(case.atol, 1e-6),
                err_msg=f"{name}, {height} rows",
            )


def _array(value: Any) -> np.ndarray:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, (np.ndarray, np.generic)) else np.empty(0)


def _operands_that_must_be_constant(
    model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]
) -> list[str]:
    """Inputs at positions for constants, and further ones without elements, which lend nothing but
    their type.
    """
    wanted = {
        name
        for node in model.graph.node
        for k, name in enumerate(node.input)
        if name in feeds and _wants_constant(node.op_type, k)
    }
    return [
        name for k, name in enumerate(feeds) if name in wanted or (k > 0 and feeds[name].size == 0)
    ]


def _wants_constant(op_type: str, position: int) -> bool:
    if op_type == "Loop":
        return position < 2  # how many turns
    return op_type in OPERATORS and position in OPERATORS[op_type].constant_inputs


def _with_constants(model: onnx.ModelProto, constants: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    inputs = [i for i in model.graph.input if i.name not in constants]
    del changed.graph.input[:]
    changed.graph.input.extend(inputs)
    changed.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in constants.items()
    )
    return changed


def _loaded(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray], case: Any) -> Any:
    """The network; where outputs that are made for training alone are refused, that of the first
    output.
    """
    shapes = {name: array.shape for name, array in feeds.items()}
    try:
        return load(model, shapes=shapes)
    except CsdfgenError as error:
        if not re.search(r"output .*(statistics|mask|indices)", error.message):
            raise
        del model.graph.output[1:]
        return load(model, shapes=shapes)


def report() -> str:
    """Markdown: how many cases pass, and how many are skipped for each reason."""
    everything = [
        outcome(case) for op_type in (*sorted(OPERATORS), "") for case in cases().get(op_type, [])
    ]
    states = Counter(o.state for o in everything)
    lines = [
        f"Of the {len(everything)} node cases of onnx {onnx.__version__} for these operators, functions expanded to "
        "nodes included, "
        f"{states['passed']} pass, {states['skipped']} are skipped and {states['failed']} fail.",
        "",
        "| reason for skipping | cases |",
        "|---|---|",
    ]
    reasons: dict[str, list[str]] = defaultdict(list)
    for o in everything:
        if o.state != "passed":
            reasons[o.reason if o.state == "skipped" else f"FAILED: {o.reason}"].append(
                o.name.removeprefix("test_")
            )
    for reason, names in sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0])):
        families = ", ".join(sorted({f"{name.partition('_')[0]}_*" for name in names}))
        lines.append(f"| {reason} | {len(names)}: {families} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(report(), end="")
