"""One sample of an operator as steps whose rows lie anywhere: scattered, in pieces, strided outputs.

Rows of an operand are cut into blocks; rows of a block lie together, blocks in any order with gaps
of any width. The workspace is declared for steps in pools of their own, where every block is
apart, and steps are bound to memory in which some blocks happen to lie together. Several images are
one step: blocks of each of them, outputs all together.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from sys import maxsize
from typing import cast

import numpy as np

from csdfgen.backends.numpy.arrays import copies
from csdfgen.backends.numpy.backend import NUMPY
from csdfgen.lowering.program import make_blocks
from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Shape, Tensor
from csdfgen.ops import get_operator
from csdfgen.ops.base import AliasKind, Mode, phases, stored_rows
from csdfgen.program.steps import Backend, Memory, Scratchpad, Step, View
from tests.lowered import bound_step, run_step

__all__ = ["Layout", "declared", "overwritten", "run_rolling", "run_scattered", "run_together"]

ALIGN = 64
GAP = 16
PATTERN = 0xA7


@dataclass(frozen=True)
class Layout:
    """How rows lie. block: rows of an operand that lie together. pieces: along the last axis of
    operands. onnx: outputs in ONNX axis order. together: whether blocks happen to follow each
    other. even: rows of an operand are as far from each other, but not contiguous. beside: elements of other tensors at
    each pixel of an operand. over: whether the first
    output is written over the operand that it may overwrite, pieces
    and all.
    """

    block: int = 1
    pieces: int = 1
    onnx: bool = False
    together: bool = False
    beside: int = 0
    over: bool = False
    even: bool = False


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


def _scattered(tensor: Tensor, pool: _Pool, name: str, layout: Layout, images: int) -> View:
    shape = tensor.row_shape
    cuts = np.array_split(np.arange(shape[-1]), min(layout.pieces, shape[-1])) if shape else []
    widths = [len(cut) for cut in cuts] or [0]
    views = []
    for width in widths:
        own = (*shape[:-1], width) if shape else shape
        wide = (*own[:-1], width + layout.beside) if own else own
        row = prod(wide) * tensor.itemsize
        rows: list[int] = []
        cuts_of_one = range(0, tensor.rows, layout.block)
        counts = {
            image * tensor.rows + start: min(layout.block, tensor.rows - start)
            for image in range(images)
            for start in cuts_of_one
        }
        if layout.even:
            first, step = pool.take(images * tensor.rows * (row + GAP)), row + GAP
            rows = [first + k * step for k in range(images * tensor.rows)]
            counts = {}
        order, starts = list(counts), {}
        for start in order if layout.together else order[::2] + order[1::2]:
            starts[start] = pool.take(row * counts[start], not layout.together or start == 0)
        for start, count in counts.items():
            rows += [starts[start] + k * row for k in range(count)]
        strides = _contiguous(wide, tensor.itemsize)
        views.append(View(name, tuple(rows), own, strides, tensor.format))
    return View.joined(views, len(shape) - 1) if shape else views[0]


def _output(
    tensor: Tensor, pool: _Pool, name: str, layout: Layout, form: Format, images: int = 1
) -> View:
    shape, size = tensor.row_shape, form.itemsize
    start = pool.take(images * tensor.elements * size)
    if not layout.onnx or tensor.row_axis is None:
        rows = tuple(start + k * prod(shape) * size for k in range(images * tensor.rows))
        return View(name, rows, shape, _contiguous(shape, size), form)
    steps = _contiguous(tensor.shape, size)
    axis = tensor.row_axis
    rows = tuple(
        start + image * tensor.elements * size + k * steps[axis]
        for image in range(images)
        for k in range(tensor.rows)
    )
    return View(name, rows, shape, (*steps[axis + 1 :], *steps[:axis]), form)


def _steps(
    layer: Layer, height: int, layout: Layout, seed: int, images: int = 1
) -> tuple[list[Step], dict[str, int], list[View | None], list[View]]:
    """Steps without workspace, bytes of the pools, and whole operands and outputs; of several images one
    step.
    """
    rng = np.random.default_rng(seed)
    operator = get_operator(layer)
    pools: dict[str, _Pool] = {}

    def pool(name: str) -> _Pool:
        return pools.setdefault(name, _Pool(rng))

    operands = [
        None if t is None else _scattered(t, pool(f"i{k}"), f"i{k}", layout, images)
        for k, t in enumerate(layer.inputs)
    ]
    outputs = [
        _output(t, pool(f"o{k}"), f"o{k}", layout, t.format, images)
        for k, t in enumerate(layer.outputs)
    ]
    if layout.over:
        (position,) = overwritten(layer)[:1]
        outputs[0] = cast(View, operands[position])
    states: list[View] = []
    if operator.mode(layer) is Mode.ACCUMULATE:
        state = operator.state(layer)
        if state.dtype != layer.output.dtype:
            states = [_output(layer.output, pool("s"), "s", Layout(), state)]
    steps = []
    for number, phase in enumerate(phases(operator, layer, height)):
        phase = replace(phase, images=images)
        inputs: list[View | None] = []
        for k, rows in enumerate(phase.ins):
            view = operands[k]
            if rows is None or view is None:
                inputs.append(None)
            else:
                tensor = layer.inputs[k]
                assert tensor is not None
                held = phase.slab(stored_rows(layer, k, rows)).span(tensor.rows)
                inputs.append(view.part(held.start, held.stop))
        rows_of = operator.written(layer, phase.out)
        spans = [phase.slab(r).span(t.rows) for t, r in zip(layer.outputs, rows_of, strict=True)]
        out = tuple(view.part(s.start, s.stop) for view, s in zip(outputs, spans, strict=True))
        steps.append(
            Step(
                number,
                layer.name,
                layer,
                phase,
                tuple(inputs),
                out,
                tuple(states),
                Scratchpad("", 0, 0),
            )
        )
    return steps, {name: p.size for name, p in pools.items()}, operands, outputs


def overwritten(layer: Layer) -> list[int]:
    """Positions of operands that the first output may overwrite."""
    return [
        alias.position
        for alias in get_operator(layer).aliases(layer)
        if alias.kind is AliasKind.INPLACE and alias.output == 0
    ]


def declared(
    layer: Layer,
    height: int,
    layout: Layout,
    limit: int | None,
    kernels: Backend = NUMPY,
    images: int = 1,
) -> list[int]:
    """What every step of a layer declares."""
    steps, *_ = _steps(layer, height, layout, 1, images)
    return [kernels.workspace(step, limit) for step in steps]


def _apart(values: np.ndarray) -> np.ndarray:
    """The same elements, with ones of another array between them."""
    held = np.empty((*values.shape, 2), values.dtype)
    held.view(np.uint8)[...] = PATTERN
    held[..., 0] = values
    return held[..., 0]


def run_scattered(
    layer: Layer,
    feeds: Mapping[int, np.ndarray],
    height: int,
    layout: Layout,
    limit: int | None,
    sizes: list[int] | None = None,
    kernels: Backend = NUMPY,
) -> list[np.ndarray]:
    """All steps, each with the workspace that it declares (or `sizes`) and no byte more; outputs in
    ONNX axis order. Other bytes lie between the elements of constants.
    """
    if sizes is None:
        layer = replace(layer, constants={k: _apart(v) for k, v in layer.constants.items()})
    (found,) = _run(layer, [feeds], height, layout, limit, sizes, kernels)
    return found


def run_together(
    layer: Layer,
    feeds: Sequence[Mapping[int, np.ndarray]],
    layout: Layout,
    limit: int | None,
    sizes: list[int] | None = None,
    kernels: Backend = NUMPY,
) -> list[list[np.ndarray]]:
    """The same for several whole images in one step."""
    return _run(layer, feeds, maxsize, layout, limit, sizes, kernels)


def run_rolling(
    layer: Layer, feeds: Mapping[int, np.ndarray], height: int, kernels: Backend
) -> list[np.ndarray]:
    """All phases of a row-phased layer, every slab at the addresses of the one before; calls are bound
    once for steps of equal keys. Outputs in ONNX axis order.
    """
    stored = {
        k: np.ascontiguousarray(t.to_storage(feeds[int(t.name[1:])]))
        for k, t in enumerate(layer.inputs)
        if t is not None
    }
    found = [np.empty(t.storage_shape, t.dtype) for t in layer.outputs]
    memory = {f"i{k}": np.empty(array.nbytes, np.uint8) for k, array in stored.items()}
    memory |= {f"o{k}": np.empty(array.nbytes, np.uint8) for k, array in enumerate(found)}
    memory["w"] = np.empty(1 << 20, np.uint8)
    known: dict[Hashable, Callable[[], None]] = {}

    def slab(name: str, tensor: Tensor, rows: int) -> View:
        steps = _contiguous(tensor.storage_shape, tensor.itemsize)
        at = tuple(k * steps[0] for k in range(rows))
        return View(name, at, tensor.row_shape, steps[1:], tensor.format)

    for number, phase in enumerate(phases(get_operator(layer), layer, height)):
        inputs: list[View | None] = []
        for k, (tensor, rows) in enumerate(zip(layer.inputs, phase.ins, strict=True)):
            if tensor is None or rows is None:
                inputs.append(None)
                continue
            held = stored_rows(layer, k, rows)
            part = stored[k][held.start : held.stop]
            memory[f"i{k}"][: part.nbytes] = part.reshape(-1).view(np.uint8)
            inputs.append(slab(f"i{k}", tensor, len(held)))
        written = get_operator(layer).written(layer, phase.out)
        outputs = tuple(
            slab(f"o{k}", t, len(r))
            for k, (t, r) in enumerate(zip(layer.outputs, written, strict=True))
        )
        step = Step(
            number, layer.name, layer, phase, tuple(inputs), outputs, (), Scratchpad("", 0, 0)
        )
        size = kernels.workspace(step)
        step = replace(step, workspace=Scratchpad("w", 0, size))
        key = make_blocks(step)
        if key not in known:
            known[key] = bound_step(kernels, step, memory)
        with np.errstate(all="ignore"):
            known[key]()
        for k, (whole, r) in enumerate(zip(found, written, strict=True)):
            part = whole[r.start : r.stop]
            np.copyto(part, memory[f"o{k}"][: part.nbytes].view(part.dtype).reshape(part.shape))
    return [t.to_onnx(array) for t, array in zip(layer.outputs, found, strict=True)]


def _run(
    layer: Layer,
    feeds: Sequence[Mapping[int, np.ndarray]],
    height: int,
    layout: Layout,
    limit: int | None,
    sizes: list[int] | None,
    kernels: Backend,
) -> list[list[np.ndarray]]:
    images = len(feeds)
    steps, extents, operands, outputs = _steps(layer, height, layout, 2, images)
    memory = {name: np.full(size + 64, PATTERN, np.uint8) for name, size in extents.items()}
    for k, view in enumerate(operands):
        tensor = layer.inputs[k]
        if view is not None and tensor is not None:
            array = np.concatenate([tensor.to_storage(fed[int(tensor.name[1:])]) for fed in feeds])
            for _, (target, source) in _reversed(array, view, memory):
                np.copyto(target, source)
    for number, step in enumerate(steps):
        size = kernels.workspace(step, limit) if sizes is None else sizes[number]
        raw = np.full(size + 192, PATTERN, np.uint8)
        start = -raw.ctypes.data % 64
        memory["w"] = raw[start:]
        bound = replace(step, workspace=Scratchpad("w", 0, size))
        with np.errstate(all="ignore"):
            run_step(kernels, bound, memory)
        assert (memory["w"][size:] == PATTERN).all(), "wrote behind its workspace"
    found: list[list[np.ndarray]] = [[] for _ in feeds]
    for tensor, view in zip(layer.outputs, outputs, strict=True):
        whole = np.empty((images * tensor.rows, *tensor.row_shape), tensor.dtype)
        for function, arguments in copies(whole, view, memory):
            function(*arguments)
        for own, stored in zip(found, np.split(whole, images), strict=True):
            own.append(tensor.to_onnx(stored))
    return found


def _reversed(
    array: np.ndarray, view: View, memory: Memory
) -> Iterator[tuple[object, tuple[np.ndarray, np.ndarray]]]:
    for function, (part, where) in copies(array, view, memory):
        yield function, (where, part)
