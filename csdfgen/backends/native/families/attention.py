"""Which attentions have a kernel? Those of float32 whose rows are stored without gaps."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from csdfgen.backends.native.families.common import FLOAT, Family, is_dense, offsets
from csdfgen.backends.native.structures import PANEL, constant, instruction, structure
from csdfgen.model.network import Layer, Tensor
from csdfgen.ops import attention as operator
from csdfgen.ops.attention import MASKS, view_slab
from csdfgen.ops.base import LEAST
from csdfgen.program.instructions import WEIGHTS, Constants, Instruction, Ref
from csdfgen.program.steps import Step, View

AttentionStep = structure("csdf_attention_step").record
QUERIES = constant("CSDF_QUERIES")

_BLOCKS = ((QUERIES, 0), (QUERIES, 128), (16, 64), (8, 64), (4, 32), (1, PANEL))
"""Queries and keys (0: all of them) that are processed at a time, the fastest first."""

_QUICK = 3
"""Of these blocks the number of those that take at most 1.25 times as long as the first."""

PART_BLOCKS = _BLOCKS[:4]
"""Those that threads take, as they share the workspace of one."""


@dataclass(frozen=True, eq=False)
class _Attention(Family):
    """keys, channels, values: how many each group (an image's head) has. steps: elements from one channel to the next
    of queries, keys, values and outputs.
    """

    kernels = ("attention_of",)

    layer: Layer
    keys: int
    channels: int
    values: int
    steps: tuple[int, ...]
    joins = False

    def takes(self, step: Step) -> bool:
        """See `Family.takes`. The masks are constants, or one tensor of which the keys are evenly spaced."""
        stored = [one for one in (*step.inputs, *step.outputs) if one is not None]
        masks = [t for t in self.layer.inputs[MASKS:] if t is not None]
        return (
            not step.states
            and all(not one.pieces and is_dense(one) for one in stored)
            and len(masks) <= 1
            and not (masks and any(k >= MASKS for k in self.layer.constants))
            and all(_mask_step(t) is not None for t in masks)
        )

    def workspace(self, step: Step, limit: int | None) -> int:
        at_any_price = limit is not None and limit < LEAST
        blocks = _BLOCKS if at_any_price else _BLOCKS[:_QUICK]
        sizes = [self._bytes(step, *block) for block in blocks]
        return next((size for size in sizes if limit is None or size <= limit), min(sizes))

    def _bytes(self, step: Step, queries: int, block: int) -> int:
        """What so many queries and keys at a time take (csdf_attention_step says why)."""
        view = operator.find_views(self.layer)[3]
        count = len(step.phase.out) if view.row == view.rank - 2 else queries
        shape = AttentionStep(keys=self.keys, channels=self.channels, values=self.values)
        shape = shape._replace(q_step=self.steps[0], out_step=self.steps[3])
        return FLOAT * scratch_floats(shape, min(queries, count), block or self.keys)

    def _places(self, step: Step) -> list[np.ndarray]:
        """Of the elements of queries, keys, values and outputs the offsets in bytes, shape (*batch, positions,
        channels).
        """
        views = operator.find_views(self.layer)
        stored = (*step.inputs[:MASKS], step.outputs[0])
        found = []
        for position, (one, view) in enumerate(zip(stored, views, strict=True)):
            assert one is not None
            array = _places(one, view)
            if position < MASKS:
                array = operator.slice_operand(self.layer, position, array, step.phase.out)
            found.append(array)
        batch = found[MASKS].shape[:-2]
        return [np.broadcast_to(one, (*batch, *one.shape[-2:])) for one in found]

    def lower(self, step: Step, constants: Constants) -> list[Instruction]:
        places, out = self._places(step), step.phase.out
        *batch, count, _ = places[0].shape
        groups = prod(batch)
        shape = (*batch, count, self.keys)
        masks, pool, apart = list[int](), WEIGHTS, 1
        for mask in operator.slice_masks(self.layer, out):
            at = constants.weights(mask, dense=False).offset
            masks += _starts(np.broadcast_to(mask, shape), at)
        for position, (tensor, view) in enumerate(zip(self.layer.inputs, step.inputs, strict=True)):
            if position >= MASKS and tensor is not None and view is not None:
                array = tensor.to_onnx(offsets(view))
                array = operator.align_mask(self.layer, position, array, out)
                masks += np.broadcast_to(array, shape)[..., 0].reshape(-1).tolist()
                pool, apart = view.pool, _mask_step(tensor) or 0
        queries, block = next(
            one for one in _BLOCKS if self._bytes(step, *one) <= step.workspace.size
        )
        made = AttentionStep(
            groups,
            count,
            self.keys,
            self.channels,
            self.values,
            *self.steps,
            len(masks) // (groups * count),
            apart,
            operator.first_query_number(self.layer, out) if self.layer.attributes["causal"] else -1,
            queries,
            block or self.keys,
            self.layer.attributes["zeros_for_nan"],
            self.layer.attributes["scale"],
            self.layer.attributes["softcap"],
            *(
                constants.rows(view.pool, array[..., 0].reshape(-1).tolist())
                for view, array in zip(step.inputs[:MASKS], places, strict=False)
                if view is not None
            ),
            constants.rows(pool, masks) if masks else None,
            constants.rows(step.outputs[0].pool, places[MASKS][..., 0].reshape(-1).tolist()),
            Ref(step.workspace.pool, step.workspace.offset),
        )
        return [instruction("attention_of", made)]


def scratch_floats(step: Any, queries: int, block: int) -> int:
    """Floats of workspace of a step that processes so many queries and keys at a time (csdf_attention_step says why)."""
    keys = min(block, step.keys)
    packed = _padded(keys) * step.channels, _padded(step.values) * keys
    apart = max(step.channels, _padded(step.values)) if max(step.q_step, step.out_step) > 1 else 0
    scores = queries * (_padded(step.keys) + apart)
    return scores + (sum(packed) if keys == step.keys else max(packed))


def _padded(size: int) -> int:
    """The size in whole panels."""
    return -(-size // PANEL) * PANEL


def _places(stored: View, view: operator.View) -> np.ndarray:
    """The same with the axes of a view."""
    inner = FLOAT * np.arange(prod(stored.shape)).reshape(1, *stored.shape)
    rows = np.asarray(stored.rows)
    if view.row is not None:
        return view_slab(inner, view) + rows.reshape(-1, *(1,) * (view.rank - view.row - 1))
    return view_slab(inner, view) + rows[0]


def _step(view: operator.View) -> int:
    """Elements from one channel to the next."""
    channels = view.axes.index(view.rank - 1) if view.rank - 1 in view.axes else len(view.axes)
    return prod(view.split[channels + 1 :])


def _mask_step(tensor: Tensor) -> int | None:
    """Elements from one key of a mask to the next: behind its last axis come the axes before the row axis. None where
    the keys are rows, 0 where all have the same.
    """
    axis = tensor.row_axis
    if tensor.shape[-1] == 1:
        return 0
    if axis is None:
        return 1
    return None if axis == len(tensor.shape) - 1 else prod(tensor.shape[:axis])


def _starts(mask: np.ndarray, at: int) -> list[int]:
    """Offsets of the rows of a mask whose first element is at an offset; each is stored side by side."""
    found = np.full(mask.shape[:-1], at)
    for axis in range(found.ndim):
        along = mask.strides[axis] * np.arange(mask.shape[axis])
        found += along.reshape(-1, *(1,) * (found.ndim - axis - 1))
    offsets: list[int] = found.reshape(-1).tolist()
    return offsets


def attention(layer: Layer) -> Family | None:
    """Attention of float32 whose channels are within rows, and whose operands are read as they are stored."""
    views = operator.find_views(layer)
    own = tuple(t.row_axis if t is not None else None for t in layer.inputs)
    if any(view.row == view.rank - 1 for view in views) or layer.input_axes != own:
        return None
    return _Attention(layer, *operator.attention_sizes(layer), tuple(map(_step, views)))
