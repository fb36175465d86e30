"""One sample of an operator, run in slabs of any height, beside onnxruntime (or onnx's reference)
on the whole.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Node, Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops import OPERATORS
from csdfgen.ops.base import (
    CountingScratch,
    Mode,
    Operator,
    Phase,
    Work,
    allocate_targets,
    phases,
    present_slab,
    slice_targets,
    stored_rows,
)
from csdfgen.ops.selection import SELECTING
from runtime.reference import fill_array


@dataclass(frozen=True)
class Arg:
    """A computed input: ONNX shape, row axis, dtype, and the range its random values are drawn
    from.
    """

    shape: tuple[int, ...]
    row_axis: int | None = None
    dtype: str = "float32"
    low: float = -2.0
    high: float = 2.0

    def values(self, rng: np.random.Generator) -> np.ndarray:
        if self.dtype == "bool":
            return rng.random(self.shape) < 0.5
        if np.dtype(self.dtype).kind in "iu":
            return rng.integers(
                int(max(self.low, 0 if self.dtype[0] == "u" else self.low)),
                int(self.high) + 1,
                self.shape,
            ).astype(self.dtype)
        return rng.uniform(self.low, self.high, self.shape).astype(self.dtype)


MISJUDGED_BEFORE = (1, 24)
MISJUDGED = (
    ("AveragePool", "count_include_pad=1,pads=[1,0,2,2]"),
    ("LayerNormalization17", "_1_1-axis=2"),
    ("LpNormalization", "axis=2"),
    ("ReduceL", "noop_with_empty_axes=1"),
    ("ReduceSumSquare", "noop_with_empty_axes=1"),
    ("Resize", "axes=[-1,-2]"),
)
"""Samples (how their text begins, what else is in it) that onnxruntime computes wrongly, or
refuses, before that version.
"""


def named_outputs(of: Layer | Sequence[Tensor]) -> list[Tensor]:
    """Outputs without states that are no outputs of the node."""
    outputs = of.outputs if isinstance(of, Layer) else of
    return [one for one in outputs if ":o" not in one.name]


@dataclass(frozen=True)
class Sample:
    """One node: operator, inputs (Arg: computed; array: constant; None: absent), attributes, opset."""

    op_type: str
    inputs: tuple[Arg | np.ndarray | None, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    opset: int = 17
    outputs: int = 1
    label: str = ""
    hides_nan: str = ""
    """Why a NaN in a declared row need not reach the output (a rounding, a comparison); "" if it
    must.
    """
    unnamed: int = 0
    """The first outputs, which are no results of the layer."""

    def __str__(self) -> str:
        shapes = "_".join(
            "x".join(map(str, i.shape)) if i is not None else "none" for i in self.inputs
        )
        attrs = ",".join(f"{k}={v}" for k, v in self.attributes.items())
        return f"{self.op_type}{self.opset}-{self.label}{shapes}-{attrs}".replace(" ", "")[:120]

    @property
    def operator(self) -> Operator:
        return OPERATORS[self.op_type]

    @property
    def values(self) -> list[Hashable]:
        """The operator, and what a kernel of it may depend on: attributes, and what each operand is."""
        found: list[Hashable] = [self.op_type, *((k, str(v)) for k, v in self.attributes.items())]
        for k, i in enumerate(self.inputs):
            if i is None:
                continue
            axis = i.row_axis if isinstance(i, Arg) else "constant"
            found += [(k, axis), (k, str(i.dtype)), (k, len(i.shape), *(n == 1 for n in i.shape))]
        return found

    def layer(self) -> Layer:
        return self.operator.build(self.node())

    def outputs_of(self) -> list[Tensor]:
        """The outputs of the node, in their order, where it may become several layers."""
        made = {t.name: t for layer in self.operator.layers(self.node()) for t in layer.outputs}
        return [made[name] for name in self.names if name]

    @property
    def names(self) -> list[str]:
        """Of the outputs."""
        return [f"o{k}" if k >= self.unnamed else "" for k in range(self.outputs)]

    def node(self) -> Node:
        inputs = tuple(
            Tensor(f"i{k}", i.shape, Format(i.dtype), i.row_axis) if isinstance(i, Arg) else i
            for k, i in enumerate(self.inputs)
        )
        return Node(
            "sample",
            self.op_type,
            self.opset,
            dict(self.attributes),
            inputs,
            tuple(self.names),
        )

    def feeds(self, seed: int = 0) -> dict[int, np.ndarray]:
        rng = np.random.default_rng(seed)
        return {
            k: np.asarray(i.values(rng)) for k, i in enumerate(self.inputs) if isinstance(i, Arg)
        }

    def model(self, of: Layer | Sequence[Tensor]) -> onnx.ModelProto:
        """The node as a model of its own, with these outputs; constants are initializers."""
        outputs = named_outputs(of)
        names = [f"i{k}" if i is not None else "" for k, i in enumerate(self.inputs)]
        while names and not names[-1]:
            names.pop()
        code, domain = helper.np_dtype_to_tensor_dtype, self.operator.domain
        graph = helper.make_graph(
            [
                helper.make_node(
                    self.op_type.removeprefix(f"{self.operator.domain}."),
                    names,
                    [*(f"o{k}" for k in range(self.unnamed)), *(t.name for t in outputs)],
                    domain=self.operator.domain,
                    **dict(self.attributes),
                )
            ],
            "sample",
            [
                helper.make_tensor_value_info(f"i{k}", code(np.dtype(i.dtype)), i.shape)
                for k, i in enumerate(self.inputs)
                if isinstance(i, Arg)
            ],
            [helper.make_tensor_value_info(t.name, code(np.dtype(t.dtype)), None) for t in outputs],
            [
                onnx.numpy_helper.from_array(i, f"i{k}")
                for k, i in enumerate(self.inputs)
                if isinstance(i, np.ndarray)
            ],
        )
        return helper.make_model(
            graph,
            opset_imports=[
                helper.make_opsetid("", self.opset),
                *([helper.make_opsetid(domain, self.operator.since)] if domain else []),
            ],
            ir_version=10 if self.opset > 20 else 8,
        )

    def reference(
        self, of: Layer | Sequence[Tensor], feeds: Mapping[int, np.ndarray]
    ) -> list[np.ndarray]:
        """onnxruntime's outputs, filled up where it finds fewer positions than there can be; onnx's reference evaluator
        where onnxruntime has no kernel.
        """
        outputs = named_outputs(of)
        found = self._reference(of, feeds)
        if self.op_type not in SELECTING:
            return found
        return [fill_array(a, t.shape) for a, t in zip(found, outputs, strict=True)]

    def _reference(
        self, of: Layer | Sequence[Tensor], feeds: Mapping[int, np.ndarray]
    ) -> list[np.ndarray]:
        import onnxruntime as ort

        version = tuple(int(part) for part in ort.__version__.split(".")[:2])
        if version < MISJUDGED_BEFORE and any(
            str(self).startswith(start) and part in str(self) for start, part in MISJUDGED
        ):
            pytest.skip(
                f"onnxruntime {ort.__version__} computes this wrongly, later versions do not"
            )
        model = self.model(of)
        named = {f"i{k}": v for k, v in feeds.items()}
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        try:
            session = ort.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            if (
                "NOT_IMPLEMENTED" not in str(error)
                and "NotImplemented" not in type(error).__name__
                and "opset" not in str(error).lower()
            ):
                raise
            from onnx.reference import ReferenceEvaluator

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return [np.asarray(a) for a in ReferenceEvaluator(model).run(None, named)]
        return [np.asarray(a) for a in session.run(None, named)]


def fed(feeds: Mapping[int, np.ndarray], tensor: Tensor) -> np.ndarray:
    """The array for an operand: feeds are by ONNX position, which a sample's tensors are named after
    (`i3`); a layer may have it elsewhere.
    """
    return feeds[int(tensor.name[1:])]


def _in_storage(layer: Layer, feeds: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
    """The operands as the runtime stores them."""
    return {
        k: np.ascontiguousarray(t.to_storage(fed(feeds, t)))
        for k, t in enumerate(layer.inputs)
        if t is not None
    }


def _slabs(
    layer: Layer, phase: Phase, stored: Mapping[int, np.ndarray], *, copied: bool
) -> list[np.ndarray | None]:
    """What a phase is handed of each operand: the stored rows themselves, or copies of them."""
    slabs: list[np.ndarray | None] = []
    for k, rows in enumerate(phase.ins):
        if rows is None:
            slabs.append(None)
            continue
        held = stored_rows(layer, k, rows)
        part = stored[k][held.start : held.stop]
        slabs.append(present_slab(part.copy() if copied else part, layer, k, rows))
    return slabs


def run_in_place(
    sample: Sample, layer: Layer, feeds: Mapping[int, np.ndarray], position: int, height: int
) -> np.ndarray:
    """All phases at `height` rows, each result in the very memory of its slab of operand
    `position`; ONNX axis order.
    """
    stored = _in_storage(layer, feeds)
    emit = sample.operator.kernel(layer)
    for phase in phases(sample.operator, layer, height):
        slabs = _slabs(layer, phase, stored, copied=False)
        result = slabs[position]
        assert result is not None
        for function, arguments in emit(Work(phase, slabs, [result], CountingScratch())):
            function(*arguments)
    return layer.output.to_onnx(stored[position])


def run_in_slabs(
    sample: Sample,
    layer: Layer,
    feeds: Mapping[int, np.ndarray],
    height: int,
    *,
    strided: bool = False,
) -> list[np.ndarray]:
    """All phases at `height` rows each; the kernel is handed copies of the declared rows only.

    strided: results lie inside wider rows, as in a concatenation that is a view.
    Returns the outputs of the node in ONNX axis order.
    """
    operator = sample.operator
    stored = _in_storage(layer, feeds)
    emit = operator.kernel(layer)
    written = [np.zeros(t.rows, bool) for t in layer.outputs]
    outs, guards = [], []
    for t in layer.outputs:
        shape = t.storage_shape
        if strided:
            wide = np.full((*shape[:-1], shape[-1] + 3), 77, t.dtype)
            guards.append((wide, shape[-1]))
            outs.append(wide[..., 1 : 1 + shape[-1]])
        else:
            outs.append(np.full(shape, 77, t.dtype))
    targets = allocate_targets(operator, layer, outs)
    for phase in phases(operator, layer, height):
        slabs = _slabs(layer, phase, stored, copied=True)
        results = slice_targets(operator, layer, phase, targets)
        for function, arguments in emit(Work(phase, slabs, results, CountingScratch())):
            function(*arguments)
        for w in slice_targets(operator, layer, phase, written):
            w[:] = True
    for out, target in zip(outs, targets, strict=True):
        if target is not out:
            np.copyto(out, target, "unsafe")
    assert all(w.all() for w in written), "rows left unwritten"
    for wide, width in guards:
        untouched = np.array(77).astype(wide.dtype)
        assert (wide[..., 0] == untouched).all() and (wide[..., 1 + width :] == untouched).all(), (
            "wrote beside its slab"
        )
    return [t.to_onnx(o) for t, o in zip(named_outputs(layer), outs, strict=False)]


def heights(layer: Layer) -> list[int]:
    """Slab heights worth trying: one row, a few, a number that leaves a rest, all."""
    top = max(
        [t.rows for t in layer.outputs]
        + [max(t.shape, default=1) for t in layer.inputs if t is not None]
    )
    return sorted({1, 2, 3, max(1, top - 1), top})


def check_rows(layer: Layer, operator: Operator, height: int) -> None:
    """Row ranges never move back, lie inside the input, and together with the last phase's rest
    cover it.
    """
    previous: dict[int, Rows] = {}
    for phase in phases(operator, layer, height):
        for k, rows in enumerate(phase.ins):
            tensor = layer.inputs[k]
            assert (rows is None) == (tensor is None)
            if rows is None or tensor is None:
                continue
            axis = layer.input_axes[k]
            assert rows.stop <= (1 if axis is None else tensor.shape[axis])
            if rows and k in previous:
                assert rows.start >= previous[k].start and rows.stop >= previous[k].stop, (
                    "a range moves back"
                )
            if rows:
                previous[k] = rows
    assert operator.mode(layer) in Mode
