"""One sample of an operator as steps whose rows lie anywhere: scattered, in pieces, strided outputs.

Rows of an operand are cut into blocks; rows of a block lie together, blocks in any order with gaps
of any width. The workspace is declared for steps in pools of their own, where every block is
apart, and steps are bound to memory in which some blocks happen to lie together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from csdfgen.kernels.arrays import copies
from csdfgen.kernels.numpy_set import NUMPY
from csdfgen.kernels.steps import KernelSet, Memory, Scratchpad, Step, View
from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Shape, Tensor
from csdfgen.ops import operator_of
from csdfgen.ops.base import Mode, phases, stored_rows

__all__ = ["Layout", "declared", "run_scattered"]

ALIGN = 64
PATTERN = 0xA7


@dataclass(frozen=True)
class Layout:
    """How rows lie. block: rows of an operand that lie together. pieces: along the last axis of
    operands. onnx: outputs in ONNX axis order. together: whether blocks happen to follow each
    other.
    """

    block: int = 1
    pieces: int = 1
    onnx: bool = False
    together: bool = False


class _Pool:
    """Bytes given away one after the other, with gaps of uneven width."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng, self.size = rng, 0

    def take(self, size: int, gap: bool = True) -> int:
        if gap:
            self.size = -(-self.size // ALIGN) * ALIGN + ALIGN * int(self._rng.integers(1, 9))
        start = self.size
        self.size += size
        return start


def _contiguous(shape: Shape, size: int) -> tuple[int, ...]:
    return tuple(size * prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _scattered(tensor: Tensor, pool: _Pool, name: str, layout: Layout) -> View:
    shape = tensor.row_shape
    cuts = np.array_split(np.arange(shape[-1]), min(layout.pieces, shape[-1])) if shape else []
    widths = [len(cut) for cut in cuts] or [0]
    views = []
    for width in widths:
        own = (*shape[:-1], width) if shape else shape
        row = prod(own) * tensor.itemsize
        rows: list[int] = []
        order = list(range(0, tensor.rows, layout.block))
        starts = {}
        for start in order if layout.together else order[::2] + order[1::2]:
            starts[start] = pool.take(
                row * min(layout.block, tensor.rows - start), not layout.together or start == 0
            )
        for start in order:
            count = min(layout.block, tensor.rows - start)
            rows += [starts[start] + k * row for k in range(count)]
        views.append(View(name, tuple(rows), own, _contiguous(own, tensor.itemsize), tensor.format))
    return View.joined(views, len(shape) - 1) if shape else views[0]


def _output(tensor: Tensor, pool: _Pool, name: str, layout: Layout, form: Format) -> View:
    shape, size = tensor.row_shape, form.itemsize
    start = pool.take(tensor.elements * size)
    if not layout.onnx or tensor.row_axis is None:
        rows = tuple(start + k * prod(shape) * size for k in range(tensor.rows))
        return View(name, rows, shape, _contiguous(shape, size), form)
    steps = _contiguous(tensor.shape, size)
    axis = tensor.row_axis
    rows = tuple(start + k * steps[axis] for k in range(tensor.rows))
    return View(name, rows, shape, (*steps[axis + 1 :], *steps[:axis]), form)


def _steps(
    layer: Layer, height: int, layout: Layout, seed: int
) -> tuple[list[Step], dict[str, int], list[View | None], list[View]]:
    """Steps without workspace, bytes of the pools, and whole operands and outputs."""
    rng = np.random.default_rng(seed)
    operator = operator_of(layer)
    pools: dict[str, _Pool] = {}

    def pool(name: str) -> _Pool:
        return pools.setdefault(name, _Pool(rng))

    operands = [
        None if t is None else _scattered(t, pool(f"i{k}"), f"i{k}", layout)
        for k, t in enumerate(layer.inputs)
    ]
    outputs = [
        _output(t, pool(f"o{k}"), f"o{k}", layout, t.format) for k, t in enumerate(layer.outputs)
    ]
    states: list[View] = []
    if operator.mode(layer) is Mode.ACCUMULATE:
        state = operator.state(layer)
        if state.dtype != layer.output.dtype:
            states = [_output(layer.output, pool("s"), "s", Layout(), state)]
    steps = []
    for number, phase in enumerate(phases(operator, layer, height)):
        inputs: list[View | None] = []
        for k, rows in enumerate(phase.ins):
            view = operands[k]
            if rows is None or view is None:
                inputs.append(None)
            else:
                held = stored_rows(layer, k, rows)
                inputs.append(view.part(held.start, held.stop))
        out = tuple(view.part(phase.out.start, phase.out.stop) for view in outputs)
        steps.append(
            Step(
                number,
                layer.name,
                layer,
                phase,
                tuple(inputs),
                out,
                tuple(states),
                Scratchpad("w", 0, 0),
            )
        )
    return steps, {name: p.size for name, p in pools.items()}, operands, outputs


def declared(
    layer: Layer, height: int, layout: Layout, limit: int | None, kernels: KernelSet = NUMPY
) -> list[int]:
    """What every step of a layer declares."""
    steps, sizes, _, _ = _steps(layer, height, layout, 1)
    return [kernels.workspace(step, sizes, limit) for step in steps]


def run_scattered(
    layer: Layer,
    feeds: Mapping[int, np.ndarray],
    height: int,
    layout: Layout,
    limit: int | None,
    sizes: list[int] | None = None,
    kernels: KernelSet = NUMPY,
) -> list[np.ndarray]:
    """All steps, each with the workspace that it declares (or `sizes`) and no byte more; outputs in
    ONNX axis order.
    """
    steps, extents, operands, outputs = _steps(layer, height, layout, 2)
    memory = {name: np.full(size + 64, PATTERN, np.uint8) for name, size in extents.items()}
    for k, view in enumerate(operands):
        tensor = layer.inputs[k]
        if view is not None and tensor is not None:
            array = np.ascontiguousarray(tensor.to_storage(feeds[int(tensor.name[1:])]))
            for _, (target, source) in _reversed(array, view, memory):
                np.copyto(target, source)
    for number, step in enumerate(steps):
        size = kernels.workspace(step, extents, limit) if sizes is None else sizes[number]
        raw = np.full(size + 192, PATTERN, np.uint8)
        start = -raw.ctypes.data % 64
        memory["w"] = raw[start:]
        bound = replace(step, workspace=Scratchpad("w", 0, size))
        with np.errstate(all="ignore"):
            for function, arguments in kernels.chained(kernels.bind(bound, memory)):
                function(*arguments)
        assert (memory["w"][size:] == PATTERN).all(), "wrote behind its workspace"
    found = []
    for tensor, view in zip(layer.outputs, outputs, strict=True):
        whole = np.empty(tensor.storage_shape, tensor.dtype)
        for function, arguments in copies(whole, view, memory):
            function(*arguments)
        found.append(tensor.to_onnx(whole))
    return found


def _reversed(
    array: np.ndarray, view: View, memory: Memory
) -> Iterator[tuple[object, tuple[np.ndarray, np.ndarray]]]:
    for function, (part, where) in copies(array, view, memory):
        yield function, (where, part)
