"""Does every tile compute what its layer computes, from columns that it has? A proof by following them.

Each tensor of the rewritten network is found to be some columns of a tensor of the network before:
inputs are themselves, a Slice is some of them, a Concat of neighbours is both. Of a clone only its
padding, its stride and the columns that it reads say which columns it makes: its first window must be
a window of the layer, so that the others are too; each of their taps that was inside the map is
in the columns at hand, and each tap that was in padding is in padding. Then equal weights make equal
values. The positions that the rewriting intended for the tile are not used.

Nothing is taken from `tiles`: halos, parts and pads are seen here as they came out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType

import numpy as np

from csdfgen.model.network import Layer, Network, Tensor
from csdfgen.ops import get_operator
from csdfgen.ops.base import AliasKind
from csdfgen.rewriting.conditions import BrokenRewritingError

RULE = "tiles"

SLIDING = frozenset({"Conv", "MaxPool", "AveragePool", "LpPool"})
"""Operators with a window along the columns."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns [start, stop) of a map of the network before. part: of a global pool's result, the part
    that these columns have in it: "pool" (of these columns alone), "share" (weighted by their number).
    """

    tensor: str
    start: int
    stop: int
    part: str = ""

    def __str__(self) -> str:
        what = f"the {self.part} of " if self.part else ""
        return f"{what}columns {self.start} to {self.stop} of '{self.tensor}'"


def check_tiles(
    before: Network, after: Network, tile_of: Mapping[str, str]
) -> Mapping[str, Columns]:
    """`after` computes the outputs of `before`, some of its layers in tiles of columns; what each of its
    tensors is.

    tile_of: clones by name, and the name of the layer that each is a clone of. Raises
    BrokenRewritingError with the first layer that does not hold, and the numbers.
    """
    proof = _Proof(before, after, tile_of)
    proof.check()
    return MappingProxyType(proof.known)


class _FaultError(Exception):
    """What does not hold, in words."""


class _Proof:
    def __init__(self, before: Network, after: Network, tile_of: Mapping[str, str]) -> None:
        self.before, self.after, self.tile_of = before, after, tile_of
        self.layers = {layer.name: layer for layer in before.layers}
        self.known: dict[str, Columns] = {}

    def check(self) -> None:
        """Follow every layer, then every output."""
        if self.after.inputs != self.before.inputs:
            raise BrokenRewritingError(RULE, self.before.name, "the inputs are others")
        for tensor in self.after.inputs:
            self.known[tensor.name] = _all_of(tensor)
        for layer in self.after.layers:
            try:
                found = [self._followed(layer)]
                if layer.name in self.layers and layer.name not in self.tile_of:
                    found = [_all_of(tensor) for tensor in layer.outputs]
                for tensor, columns in zip(layer.outputs, found, strict=True):
                    if tensor.name in self.known:
                        raise _FaultError(f"'{tensor.name}' is made twice")
                    self.known[tensor.name] = columns
            except _FaultError as fault:
                raise BrokenRewritingError(RULE, layer.name, str(fault)) from None
        self._check_outputs()

    def _check_outputs(self) -> None:
        names = [[(o.name, o.tensor) for o in net.outputs] for net in (self.before, self.after)]
        if names[0] != names[1]:
            raise BrokenRewritingError(RULE, self.before.name, "the outputs are others")
        for output in self.after.outputs:
            if output.tensor is not None:
                found = self.known.get(output.tensor.name)
                if found != _all_of(output.tensor):
                    raise BrokenRewritingError(
                        RULE, output.name, f"this output is {found or 'made by no layer'}"
                    )

    # One layer ---------------------------------------------------------------------------------

    def _followed(self, layer: Layer) -> Columns:
        """What the layer makes."""
        operands = [self._operand(tensor) for tensor in layer.inputs if tensor is not None]
        if layer.name in self.tile_of:
            original = self.layers.get(self.tile_of[layer.name])
            if original is None:
                raise _FaultError(f"is a clone of '{self.tile_of[layer.name]}', which is no layer")
            return _cloned(original, layer, operands)
        if layer.name in self.layers:
            return self._unchanged(layer, operands)
        if layer.op_type == "Slice":
            return _sliced(layer, operands[0])
        if layer.op_type == "Concat":
            return _joined(layer, operands)
        if layer.op_type == "Mul":
            return self._weighted(layer, operands)
        if layer.op_type in ("Add", "Max"):
            return self._summed(layer, operands)
        raise _FaultError(
            f"a new {layer.op_type} is not one of the layers that tiles are joined with"
        )

    def _operand(self, tensor: Tensor) -> Columns:
        if tensor.name not in self.known:
            raise _FaultError(f"reads '{tensor.name}' before it is made")
        return self.known[tensor.name]

    def _unchanged(self, layer: Layer, operands: list[Columns]) -> Columns:
        original = self.layers[layer.name]
        if layer is not original:  # it reads clones
            for fault in _differences(original, layer):
                raise _FaultError(fault)
            if (layer.outputs, layer.input_axes) != (original.outputs, original.input_axes):
                raise _FaultError("is another layer than before")
        read = [tensor for tensor in layer.inputs if tensor is not None]
        wanted = [tensor for tensor in original.inputs if tensor is not None]
        for found, one, tensor in zip(operands, read, wanted, strict=True):
            if found != _all_of(tensor) or replace(one, name=tensor.name) != tensor:
                raise _FaultError(f"reads {found}, {_all_of(tensor)} is wanted")
        return _all_of(layer.output)

    def _weighted(self, layer: Layer, operands: list[Columns]) -> Columns:
        """A pool times the number of its columns over that of all columns."""
        (one,) = operands
        pool = self._pool(one, "GlobalAveragePool")
        width = _map(pool).shape[3]
        share = np.array((one.stop - one.start) / width, layer.output.dtype)
        factors = list(layer.constants.values())
        if one.part != "pool" or len(factors) != 1 or factors[0].size != 1 or factors[0] != share:
            raise _FaultError(f"is {one} times {factors}; {share} is wanted")
        return _complete(pool, Columns(one.tensor, one.start, one.stop, "share"))

    def _summed(self, layer: Layer, operands: list[Columns]) -> Columns:
        """The parts of a pool of neighbouring columns as that of both."""
        kind = (
            ("GlobalAveragePool", "share") if layer.op_type == "Add" else ("GlobalMaxPool", "pool")
        )
        if len(operands) != 2 or layer.constants:
            raise _FaultError("does not join two parts")
        a, b = operands
        pool = self._pool(a, kind[0])
        if (a.tensor, a.part, a.stop) != (b.tensor, b.part, b.start) or a.part != kind[1]:
            raise _FaultError(f"joins {a} and {b}, which are no neighbours")
        return _complete(pool, Columns(a.tensor, a.start, b.stop, a.part))

    def _pool(self, part: Columns, kind: str) -> Layer:
        """The global pool whose part this is; a part names the pool's output."""
        pool = self.before.producer.get(part.tensor)
        if pool is None or pool.op_type != kind or not part.part:
            raise _FaultError(f"{part} is no part of a {kind}")
        return pool


def _all_of(tensor: Tensor) -> Columns:
    """The whole tensor; one without columns counts as one of them."""
    return Columns(tensor.name, 0, tensor.shape[3] if len(tensor.shape) == 4 else 1)


def _map(pool: Layer) -> Tensor:
    assert pool.inputs[0] is not None
    return pool.inputs[0]


def _complete(pool: Layer, part: Columns) -> Columns:
    """The part of a pool, which is its result once it is that of all columns."""
    width = _map(pool).shape[3]
    weighted = part.part == "share" or pool.op_type == "GlobalMaxPool"
    return _all_of(pool.output) if weighted and (part.start, part.stop) == (0, width) else part


def _sliced(layer: Layer, source: Columns) -> Columns:
    tensor = layer.computed(0)
    starts, steps, shape = layer.attributes["starts"], layer.attributes["steps"], layer.output.shape
    if any(step != 1 for step in steps) or len(shape) != 4:
        raise _FaultError(f"steps {steps} leave columns out")
    if starts[:3] != (0, 0, 0) or shape[:3] != tensor.shape[:3]:
        raise _FaultError(
            f"cuts other axes than the columns: from {starts}, {shape} of {tensor.shape}"
        )
    start = source.start + starts[3]
    stop = start + shape[3]
    if start < source.start or stop > source.stop or source.part:
        raise _FaultError(f"takes columns {start} to {stop}, there are {source}")
    return Columns(source.tensor, start, stop)


def _joined(layer: Layer, operands: list[Columns]) -> Columns:
    if layer.attributes["axis"] != 3 or layer.constants or any(one.part for one in operands):
        raise _FaultError(f"does not join columns, but along axis {layer.attributes['axis']}")
    for a, b in pairwise(operands):
        if a.tensor != b.tensor or a.stop != b.start:
            raise _FaultError(f"joins {a} and {b}, which are no neighbours")
    return Columns(operands[0].tensor, operands[0].start, operands[-1].stop)


def is_pointwise(layer: Layer) -> bool:
    """Whether every column of the output depends on the same column of its operands alone."""
    shape = layer.output.shape
    computed = [tensor for tensor in layer.inputs if tensor is not None]
    if len(shape) != 4 or any(t.shape[3:] != shape[3:] or len(t.shape) != 4 for t in computed):
        return False
    if layer.op_type == "Concat":
        return bool(layer.attributes["axis"] == 1) and not layer.constants
    operator = get_operator(layer)
    aliases = operator.aliases(layer)
    over = {layer.inputs[a.position] for a in aliases if a.kind is AliasKind.INPLACE}
    if not operator.rowwise or not over.issuperset(computed):
        return False
    if layer.op_type == "BatchNormalization":
        return True
    return "axes" not in layer.attributes and all(
        constant.ndim == 0 or constant.shape[-1] == 1 for constant in layer.constants.values()
    )


# Clones ------------------------------------------------------------------------------------------


def _cloned(original: Layer, clone: Layer, operands: list[Columns]) -> Columns:
    """What a clone makes of the columns that it reads."""
    for fault in _differences(original, clone):
        raise _FaultError(fault)
    wanted = [tensor for tensor in original.inputs if tensor is not None]
    for found, tensor in zip(operands, wanted, strict=True):
        if found.tensor != tensor.name or found.part:
            raise _FaultError(f"reads {found}, columns of '{tensor.name}' are wanted")
    held = [t.shape for t in clone.inputs if t is not None]
    for found, shape, tensor in zip(operands, held, wanted, strict=True):
        if shape != (*tensor.shape[:3], found.stop - found.start):
            raise _FaultError(f"reads a tensor of shape {shape} as {found}")
    if original.op_type in ("GlobalAveragePool", "GlobalMaxPool"):
        (one,) = operands
        if clone.output.shape != original.output.shape:
            raise _FaultError(f"makes {clone.output.shape}, {original.output.shape} is wanted")
        return _complete(original, Columns(original.output.name, one.start, one.stop, "pool"))
    if clone.output.shape[:3] != original.output.shape[:3]:
        raise _FaultError(
            f"makes {clone.output.shape}, columns of {original.output.shape} are wanted"
        )
    width = clone.output.shape[3]
    if original.op_type in SLIDING:
        start = _windowed(original, clone, operands[0], width)
    elif not is_pointwise(original):
        raise _FaultError(f"{original.op_type} does not compute column by column")
    else:
        start = operands[0].start
        same = {(one.start, one.stop) for one in operands}
        if same != {(start, start + width)}:
            raise _FaultError(f"makes {width} columns of {', '.join(map(str, operands))}")
    found = Columns(original.output.name, start, start + width)
    if start < 0 or width < 1 or found.stop > original.output.shape[3]:
        raise _FaultError(f"makes {found}, which has {original.output.shape[3]}")
    return found


def _windowed(original: Layer, clone: Layer, read: Columns, width: int) -> int:
    """The first column that a clone with windows makes; every tap is seen to meet what it should."""
    kernel = original.attributes["kernel_shape"][1]
    stride, dilation = original.attributes["strides"][1], original.attributes["dilations"][1]
    (_, begin, _, end), (_, left, _, right) = original.attributes["pads"], clone.attributes["pads"]
    source = original.inputs[0]
    assert source is not None
    columns = source.shape[3]
    first, rest = divmod(read.start - left + begin, stride)
    if rest:
        raise _FaultError(
            f"its windows start at column {read.start - left} of '{source.name}' and are between "
            f"those of '{original.name}', which start at {-begin} and every {stride}"
        )
    for out in range(first, first + width):
        for tap in range(kernel):
            at = out * stride - begin + tap * dilation
            if 0 <= at < columns and not read.start <= at < read.stop:
                raise _FaultError(
                    f"column {out} of '{original.output.name}' reads column {at} of "
                    f"'{source.name}', which it does not have ({read})"
                )
            if _counted(original, at, columns, end) != _counted(
                clone, at - read.start, read.stop - read.start, right
            ):
                raise _FaultError(
                    f"column {out} of '{original.output.name}' counts column {at} of "
                    f"'{source.name}' as padding otherwise: pads {clone.attributes['pads']}"
                )
    return first


def _counted(layer: Layer, at: int, columns: int, end: int) -> bool:
    """Whether an average counts a column, which may be one of padding."""
    if layer.op_type != "AveragePool":
        return True
    if layer.attributes["count_include_pad"]:
        return at < columns + end
    return 0 <= at < columns


_FREE = frozenset({"pads", "kernel_shape"})
"""Attributes that may differ: pads along the columns, and the size of a global pool's window."""


def _differences(original: Layer, clone: Layer) -> Iterator[str]:
    """What else than columns sets a clone apart from its layer."""
    if clone.op_type != original.op_type:
        yield f"is a {clone.op_type}, a {original.op_type} is wanted"
    for name in original.attributes.keys() | clone.attributes.keys():
        a, b = original.attributes.get(name), clone.attributes.get(name)
        if name == "kernel_shape" and original.op_type.startswith("Global"):
            a, b = a and a[0], b and b[0]
        if name == "pads" and a is not None and b is not None:
            a, b = a[::2], b[::2]
        if not _same(a, b):
            yield f"attribute '{name}' is {b}, {a} is wanted"
    if original.constants.keys() != clone.constants.keys() or any(
        array is not clone.constants[k] for k, array in original.constants.items()
    ):
        yield "has other constants"
    if original.stored != clone.stored:
        yield f"stores {clone.stored}, {original.stored} is wanted"
    if len(original.epilogue) != len(clone.epilogue):
        yield f"applies {len(clone.epilogue)} functions to its slabs, {len(original.epilogue)} are wanted"
    for a, b in zip(original.epilogue, clone.epilogue, strict=False):
        yield from _differences(a, b)
        if b.output.shape != clone.output.shape:
            yield f"'{b.name}' is applied to {b.output.shape}, it makes {clone.output.shape}"


def _same(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.array_equal(a, b)
    return a == b
