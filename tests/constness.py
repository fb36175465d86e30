"""Networks of one operator, with each subset of its operands constant, at every rank and axis.

    python -m tests.constness --operators Gather,ScatterND        (a line for each run that is wrong)

An operand may be an initializer or be computed: by a layer, by a Transpose (stored by other rows), by a Concat (stored in
pieces), by a Reshape (no rows), or it may be an input of the network. A kernel, a row rule or the split of a batch that takes
the usual operands for granted is wrong where others are constant. Every case is a whole network, run at one row and at the
default heights in both backends beside onnxruntime without optimizations, or onnx's reference where it has no kernel.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product
from math import inf
from zlib import crc32

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

import csdfgen
import runtime
from csdfgen.errors import CsdfgenError
from csdfgen.ops import OPERATORS
from csdfgen.ops.selection import SELECTING
from csdfgen.reading.onnx_file import OLDEST_OPSET
from runtime.reference import fill_array
from tests.native_steps import compiler_missing
from tests.op_harness import Arg, Sample
from tests.op_samples import SAMPLES
from tests.op_samples.composed import SAMPLES as COMPOSED
from tests.op_samples.ranks import RANKED
from tests.planning import LITTLE

__all__ = ["Case", "Found", "backends", "cases", "check", "reference", "refusable", "summary"]

MANY = 16
"""Subsets of the operands of a sample that are tried; of more than four operands not all."""

FRONTS = ("input", "layer", "transposed", "joined", "reshaped")
"""What makes an operand that is computed."""

ENDS = ("output", "layer")
"""What reads the results."""


@dataclass(frozen=True)
class Case:
    """A sample with these operands constant. fronts: by position, what makes an operand that is computed."""

    sample: Sample
    constant: frozenset[int]
    fronts: tuple[str, ...]
    end: str
    seed: int

    def __str__(self) -> str:
        held = ",".join(map(str, sorted(self.constant))) or "none"
        types = ",".join(str(i.dtype) for i in self.sample.inputs if i is not None)
        return f"{self.sample} {types} constant={held} {'/'.join(self.fronts)} {self.end}"

    @property
    def shape(self) -> tuple[int, ...]:
        """Ranks of the operands."""
        return tuple(len(i.shape) for i in self.sample.inputs if i is not None)


def cases(op_type: str) -> list[Case]:
    """All cases of an operator, in an order in which every few are unlike each other."""
    found = []
    for sample in (*RANKED.get(op_type, ()), *_SAMPLES.get(op_type, ())):
        for subset in _subsets(sample):
            seed = crc32(f"{sample}{sorted(subset)}".encode())
            rng = np.random.default_rng(seed)
            fronts = tuple(str(rng.choice(FRONTS)) for _ in sample.inputs)
            found.append(Case(sample, subset, fronts, str(rng.choice(ENDS)), seed))
    return sorted(found, key=lambda case: case.seed)


def _subsets(sample: Sample) -> list[frozenset[int]]:
    """Subsets of the operands that hold those that must be constants, and none at all, which is then refused; of many, the
    smallest and the largest, and some of the others.
    """
    present = [k for k, i in enumerate(sample.inputs) if i is not None]
    must = OPERATORS[sample.op_type].constant_inputs & set(present)
    if sample.op_type == "QLinearConcat":  # the scales of any number of operands
        must = {k for k in present if k < 2 or k % 3 != 2}
    every = chain(*(combinations(present, n) for n in range(len(present) + 1)))
    allowed = [frozenset(some) for some in every if not some or must <= set(some)]
    if len(allowed) <= MANY:
        return allowed
    rng = np.random.default_rng(len(allowed))
    some = rng.choice(len(allowed) - 2, MANY - 2, replace=False) + 1
    return [allowed[0], *(allowed[k] for k in sorted(some)), allowed[-1]]


_SAMPLES: dict[str, list[Sample]] = {}
for _one in (one for one in (*SAMPLES, *COMPOSED) if one.opset >= OLDEST_OPSET):
    _SAMPLES.setdefault(_one.op_type, []).append(_one)


# Models ------------------------------------------------------------------------------------------


class _Model:
    """The nodes, inputs and initializers of a case as they are made, and what is fed."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.feeds: dict[str, np.ndarray] = {}

    def constant(self, name: str, array: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def fed(self, name: str, array: np.ndarray) -> str:
        array = np.asarray(array)
        self.inputs.append(helper.make_tensor_value_info(name, _code(array.dtype), array.shape))
        self.feeds[name] = array
        return name

    def node(self, op_type: str, inputs: Sequence[str], output: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op_type, inputs, [output], **attributes))
        return output

    def computed(self, name: str, array: np.ndarray, front: str) -> str:
        """A tensor of this name and value, made as `front` says."""
        source, rank = f"{name}_", array.ndim
        if front == "input" or (front != "layer" and not rank):
            return self.fed(name, array)
        if front == "transposed" and rank > 1:
            order = [*range(1, rank), 0]
            back = [int(k) for k in np.argsort(order)]
            self.fed(source, np.ascontiguousarray(array.transpose(order)))
            return self.node("Transpose", [source], name, perm=back)
        if front == "joined":
            axis = len(name) % rank if array.shape[-1] < 2 else rank - 1
            cut = max(1, array.shape[axis] // 2)
            parts = [p for p in np.split(array, [cut], axis) if p.size]
            names = [self.fed(f"{source}{k}", part) for k, part in enumerate(parts)]
            return self.node("Concat", names, name, axis=axis)
        if front == "reshaped":
            shape = self.constant(f"{name}shape", np.array(array.shape, np.int64))
            return self.node("Reshape", [self.fed(source, array.reshape(-1)), shape], name)
        return self.turned(source, name, array.dtype, array)

    def turned(
        self, source: str, name: str, dtype: np.dtype, value: np.ndarray | None = None
    ) -> str:
        """An elementwise layer that makes `name` of `source`. value: what it is to make, for a source that is fed."""
        op_type = "Not" if dtype.kind == "b" else "Neg"
        if dtype.kind == "u":
            wide = np.dtype("int64" if dtype.itemsize > 2 else "int32")
            if value is not None:
                self.fed(source, value.astype(wide))
            return self.node("Cast", [source], name, to=_code(dtype if value is not None else wide))
        if value is not None:
            self.fed(source, ~value if dtype.kind == "b" else -value)
        return self.node(op_type, [source], name)


def _code(dtype: np.dtype) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def model_of(case: Case) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The network of a case, and its inputs. Where all operands are constants another layer is computed."""
    sample, made = case.sample, _Model()
    rng = np.random.default_rng(case.seed)
    names = []
    for k, operand in enumerate(sample.inputs):
        if operand is None:
            names.append("")
            continue
        array = np.asarray(operand.values(rng)) if isinstance(operand, Arg) else operand
        constant = k in case.constant
        names.append(
            made.constant(f"i{k}", array)
            if constant
            else made.computed(f"i{k}", array, case.fronts[k])
        )
    while names and not names[-1] and case.seed % 2:  # an empty name, or none
        names.pop()
    operator = sample.operator
    made.nodes.append(
        helper.make_node(
            sample.op_type.removeprefix(f"{operator.domain}."),
            names,
            [f"o{k}" for k in range(sample.outputs)],
            domain=operator.domain,
            **dict(sample.attributes),
        )
    )
    outputs = [name for name in sample.names if name]
    if case.end == "layer":
        kinds = [np.dtype(t.dtype) for t in sample.outputs_of()]
        outputs = [
            made.turned(name, f"r{k}", kind)
            for k, (name, kind) in enumerate(zip(outputs, kinds, strict=True))
        ]
    if not made.inputs and case.seed % 3:
        source = made.fed("other", rng.normal(size=(2, 3)).astype(np.float32))
        outputs.append(made.node("Relu", [source], "also"))
    graph = helper.make_graph(
        made.nodes,
        "case",
        made.inputs,
        [onnx.ValueInfoProto(name=name) for name in outputs],
        made.weights,
    )
    domain = operator.domain
    sets = [
        helper.make_opsetid("", sample.opset),
        *([helper.make_opsetid(domain, operator.since)] if domain else []),
    ]
    version = 10 if sample.opset > 20 else 8
    return helper.make_model(graph, opset_imports=sets, ir_version=version), made.feeds


def reference(
    model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray] | None, str]:
    """What onnxruntime computes without optimizations, or onnx's reference; and which of the two."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    names = [o.name for o in model.graph.output]
    try:
        session = ort.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return dict(zip(names, session.run(None, dict(feeds)), strict=True)), "onnxruntime"
    except Exception as error:  # its exceptions have no class in common
        said = str(error)
    from onnx.reference import ReferenceEvaluator

    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            arrays = ReferenceEvaluator(model).run(None, dict(feeds))
        return dict(zip(names, map(np.asarray, arrays), strict=True)), "onnx"
    except Exception as error:
        return None, f"{said} / {error!r}"


# The law -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """What became of a case: right, refused, wrong, error (not one of csdfgen's), or skipped for want of a reference."""

    state: str
    runs: int = 0
    text: str = ""


def refusable(text: str) -> bool:
    """Whether csdfgen refuses a case because an operand is computed that must be a constant."""
    return "it must be a constant" in text or "is computed at run time and has scales" in text


def backends() -> tuple[str, ...]:
    return ("numpy",) if compiler_missing() else ("numpy", "native")


ROWS = ("1", "auto")


def check(case: Case, ways: Sequence[tuple[str, str]] | None = None) -> Found:
    """Load, plan and run the network of a case. ways: rows and backend of each run, by default all."""
    model, feeds = model_of(case)
    wanted, by = reference(model, feeds)
    if wanted is None:
        return Found("skipped", 0, by)
    if case.sample.op_type in SELECTING and case.end == "layer":
        return Found("skipped", 0, "as many positions as are found")
    runs = 0
    way: object = "load"
    try:
        network = csdfgen.load(model)
        for way in ways or tuple(product(ROWS, backends())):
            rows, backend = way
            plan = csdfgen.plan(network, rows=rows, backend=backend, effort=LITTLE)
            got = runtime.compile(plan, backend=backend)(feeds)
            runs += 1
            for name, want in wanted.items():
                found = got[name]
                if name in network.found_outputs:
                    want = fill_array(want, found.shape)
                _close(found, want)
    except CsdfgenError as error:
        return Found("refused", runs, f"{way}: {error}")
    except AssertionError as error:
        return Found("wrong", runs, f"{way} ({by}): {' '.join(str(error).split())[:300]}")
    except Exception as error:
        return Found("error", runs, f"{way}: {error!r}"[:300])
    return Found("right", runs)


def _close(got: np.ndarray, want: np.ndarray) -> None:
    assert (got.shape, got.dtype) == (want.shape, want.dtype), (
        got.shape,
        got.dtype,
        want.shape,
        want.dtype,
    )
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
        return
    rtol, atol = {2: (1e-2, 1e-2), 4: (1e-3, 1e-4), 8: (1e-6, 1e-8)}[got.dtype.itemsize]
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


# What is documented ------------------------------------------------------------------------------

INTRODUCTION = """
`tests.constness` runs every operator with each allowed subset of its operands constant, at every rank up to 5 that it takes, in
networks of one operator, and compares the results with onnxruntime: {count:,} combinations of shapes, types, settings and
constants. Operands that are not listed under "constants" may be constants or computed.
"""


def summary() -> str:
    """Markdown: what the law holds for."""
    names = sorted({*RANKED, *_SAMPLES})
    return INTRODUCTION.format(count=sum(len(cases(name)) for name in names))


def main(arguments: list[str]) -> int:
    """Print what is not right, and how many runs there were; the exit code says whether all cases are as they should be."""
    parser = argparse.ArgumentParser(prog="python -m tests.constness")
    parser.add_argument("--operators", default="", help="names, separated by commas; default: all")
    parser.add_argument("--part", default="0/1", help="K/N: every N-th case, from the K-th on")
    parser.add_argument("--most", type=int, default=sys.maxsize, help="cases of an operator")
    parser.add_argument("--minutes", type=float, default=inf, help="for how long")
    asked = parser.parse_args(arguments)
    first, step = map(int, asked.part.split("/"))
    names = asked.operators.split(",") if asked.operators else sorted({*RANKED, *_SAMPLES})
    ends = time.monotonic() + 60 * asked.minutes
    states, runs, last = Counter[str](), 0, ""
    for case in chain.from_iterable(cases(name)[first::step][: asked.most] for name in names):
        if time.monotonic() > ends:
            break
        found, last = check(case), case.sample.op_type
        runs += found.runs
        known = found.state == "refused" and refusable(found.text)
        states["needs a constant" if known else found.state] += 1
        if not known and found.state != "right":
            print(f"{found.state}\t{case}\t{' '.join(found.text.split())}", flush=True)
    print(f"{runs} runs, the last of {last}; cases: {dict(states)}")
    return min(1, states["wrong"] + states["error"] + states["refused"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
