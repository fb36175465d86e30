"""Which matrix products have kernels? Those with a constant right operand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from csdfgen.backends.native import packing
from csdfgen.backends.native.families.common import (
    Family,
    count_activations,
    epilogue_activation,
    is_dense,
    memoize,
)
from csdfgen.backends.native.families.convolution import IN_HALVES, ConvStep, Filter, Packed, Target
from csdfgen.backends.native.structures import (
    Activation,
    Source,
    instruction,
    structure,
    type_suffix,
)
from csdfgen.backends.native.ways import HALVES
from csdfgen.model.deferred import defer
from csdfgen.model.network import Layer, Tensor
from csdfgen.ops import get_operator
from csdfgen.ops.base import Mode
from csdfgen.program.instructions import Constants, Instruction
from csdfgen.program.steps import Step, View

GemmStep = structure("csdf_gemm_step").record
Gemm4Step = structure("csdf_gemm_4_step").record


@dataclass(frozen=True, eq=False)
class Product(Family):
    """Gemm and MatMul with a constant right operand, and the Gemm that reads a map row by row.

    inputs: that are summed up for an output. packed: weights and bias. halves: the kernels' name of a type of two bytes in
    which the weights are stored, and those packed in it, which are widened in registers where a step has one row. pairs: the
    layer as the kernel of products of pairs wants it, where that may compute it; reads_pairs: whether what is read and
    written has that type, too, so that it does.
    """

    inputs: int
    outputs: int
    packed: Callable[[], tuple[np.ndarray, np.ndarray]]
    halves: tuple[str, Callable[[], tuple[np.ndarray, np.ndarray]]] | None = None
    pairs: Callable[[], Packed] | None = None
    reads_pairs: bool = False

    @property
    def weights(self) -> int:
        """See `Convolution.weights`."""
        return self.inputs * self.outputs

    def in_halves(self, layer: Layer, dtype: str) -> Family | None:
        """None where weights are no pairs of the type."""
        same = self.halves is not None and self.halves[0] == type_suffix(np.dtype(dtype))
        return replace(self, reads_pairs=True) if same and self.pairs else None

    @property
    def kernels(self) -> tuple[str, ...]:  # type: ignore[override]
        """With that of halves, if weights are such."""
        return ("gemm_of",) if self.halves is None else ("gemm_of", f"gemm_{self.halves[0]}_of")

    def takes(self, step: Step) -> bool:
        view, out = step.inputs[0], step.outputs[0]
        rows = prod(out.shape) * out.count // self.outputs
        return (
            view is not None
            and (rows > 1 or not self.reads_pairs)  # all of the time of one is reading weights
            and not step.states
            and not view.pieces
            and not out.pieces
            and is_dense(view)
            and is_dense(out)
        )

    def follows(self, layer: Layer) -> int:
        adds = _addend(layer) is not None
        return adds + count_activations(replace(layer, epilogue=layer.epilogue[adds:]))

    def lower(self, step: Step, constants: Constants) -> list[Instruction]:
        phase, view, target = step.phase, step.view(0), step.outputs[0]
        held = phase.held(0)
        accumulates = get_operator(step.layer).mode(step.layer) is Mode.ACCUMULATE
        elements = prod(view.shape)
        if accumulates:
            there, parts = view.rows, view.count // phase.images
            # a part of the sum is a row of the map, in all images
            table = [at for row in range(parts) for at in there[row::parts]]
            first, size = held.start * elements, elements
        else:
            table = matrix_rows(step, self.inputs)
            first, parts, size = 0, 1, self.inputs
        written = split_offsets(target, self.outputs)
        if self.reads_pairs and self.pairs is not None and self.halves is not None:
            # a row of the matrix is a pixel
            source = Source(constants.rows(view.pool, table), self.inputs, self.inputs)
            into = constants.rows(target.pool, written)
            conv = ConvStep(
                self.pairs().placed(constants), constants.table("csdf_source", [source]), 1, 1,
                Target(into, self.outputs, len(written), 0, 1, 0, self.outputs), None, None, 0, 0, 0, 0, 0,
            )  # fmt: skip
            return [instruction(f"{HALVES[self.halves[0]]}_of", conv)]
        kernel, packed = "gemm_of", self.packed
        if self.halves is not None and len(written) == 1:  # all of its time is reading weights
            kernel, packed = f"gemm_{self.halves[0]}_of", self.halves[1]
        weights, bias = packed()
        adds = _addend(step.layer) is not None
        after = replace(step.layer, epilogue=step.layer.epilogue[adds:])
        made = GemmStep(
            self.inputs, self.outputs, first, parts, len(written), 0, self.outputs,
            int(phase.first or not accumulates), int(phase.last or not accumulates), Activation(*epilogue_activation(after)),
            constants.weights(weights), constants.weights(bias), constants.table("int32_t", [size] * parts),
            constants.rows(view.pool, table), constants.rows(target.pool, written),
        )  # fmt: skip
        return [instruction(kernel, made)]


@dataclass(frozen=True, eq=False)
class FourBits(Product):
    """MatMulNBits with weights of four bits. packed: these and the bias."""

    kernels = ("gemm_4_of",)

    def lower(self, step: Step, constants: Constants) -> list[Instruction]:
        view, target, given = step.view(0), step.outputs[0], step.layer.constants
        written, (weights, bias) = split_offsets(target, self.outputs), self.packed()
        after = replace(step.layer, epilogue=step.layer.epilogue[_addend(step.layer) is not None :])
        made = Gemm4Step(
            self.inputs, self.outputs, step.layer.attributes["block_size"], len(written), 0, self.outputs,
            Activation(*epilogue_activation(after)),
            constants.weights(weights), constants.weights(given[2]),
            constants.weights(given[3]) if 3 in given else None, constants.weights(bias),
            constants.table("int32_t", [self.inputs]),
            constants.rows(view.pool, matrix_rows(step, self.inputs)), constants.rows(target.pool, written),
        )  # fmt: skip
        return [instruction("gemm_4_of", made)]


def four_bit_product(layer: Layer) -> Family | None:
    """MatMulNBits, where rows lie as those of a product do."""
    x, (inputs, outputs) = layer.inputs[0], (layer.attributes[name] for name in ("K", "N"))
    if x is None or not (has_matrix_rows(x, layer) or is_whole_matrix(x, layer)):
        return None

    def packed() -> tuple[np.ndarray, np.ndarray]:
        adds = _addend(layer)
        bias = np.zeros(outputs, np.float32) if adds is None else np.broadcast_to(adds, outputs)
        return packing.aligned(layer.constants[1], "uint8"), packing.conv_bias(bias, outputs)

    return FourBits(inputs, outputs, memoize(packed))


def matrix_rows(step: Step, size: int) -> list[int]:
    """Offsets of the rows, of so many elements, of the left operand that a step multiplies."""
    x, view, images, out = step.layer.computed(0), step.view(0), step.phase.images, step.phase.out
    table = split_offsets(view, size)
    if x.row_axis == step.layer.output.row_axis:
        return table
    # the step holds all rows of the matrix of every image
    whole = len(table) // images
    return [at for k in range(images) for at in table[k * whole :][out.start : out.stop]]


def split_offsets(view: View, size: int) -> list[int]:
    """Offsets of every `size` elements of all rows."""
    count = prod(view.shape) // size
    return [at + view.format.itemsize * size * k for at in view.rows for k in range(count)]


def product(layer: Layer) -> Family | None:
    given, x = layer.attributes, layer.inputs[0]
    if given.get("flattened"):
        weights = layer.constants[1]
        outputs = weights.shape[-1]
        return _of(layer, weights.size // outputs, outputs, 1.0, 1.0)
    addend = layer.constants.get(2)
    if (
        x is None
        or 1 not in layer.constants
        or given.get("transA")
        or layer.constants[1].ndim != 2
        or any(t is not None for t in layer.inputs[1:])
        or not (has_matrix_rows(x, layer) or is_whole_matrix(x, layer))
        or (addend is not None and addend.size not in (1, layer.output.shape[-1]))
        or (addend is not None and addend.ndim > 1 and addend.shape[-1] != addend.size)
    ):
        return None
    outputs = layer.output.shape[-1]
    scales = float(given.get("alpha", 1)), float(given.get("beta", 1))
    return _of(layer, x.shape[-1], outputs, *scales)


def _of(layer: Layer, inputs: int, outputs: int, alpha: float, beta: float) -> Product:
    dtype, halves, pairs = layer.constants[1].dtype, None, None
    if dtype.itemsize == 2 and alpha == 1:
        halves = type_suffix(dtype), _packed_once(layer, alpha, beta, halves=True)
        if halves[0] in HALVES and not layer.attributes.get("flattened"):
            pairs = memoize(lambda: _in_pairs(layer, inputs, outputs, beta))
    return Product(inputs, outputs, _packed_once(layer, alpha, beta), halves, pairs)


def _in_pairs(layer: Layer, inputs: int, outputs: int, beta: float) -> Packed:
    """As a convolution of one tap."""
    weights = layer.constants[1] if layer.attributes.get("transB") else layer.constants[1].T
    after = replace(layer, epilogue=layer.epilogue[_addend(layer) is not None :])
    own = Filter(
        np.ascontiguousarray(weights).reshape(outputs, inputs, 1, 1),
        _bias(layer, outputs, beta),
        1, (1, 1), (1, 1), 0, epilogue_activation(after),
    )  # fmt: skip
    return own.pack(IN_HALVES[type_suffix(weights.dtype)])


def has_matrix_rows(x: Tensor, layer: Layer) -> bool:
    """Whether stored rows hold rows of the left operand whole, those of the result likewise."""
    if len(x.shape) < 2 or x.row_axis != layer.input_axes[0]:
        return False
    if x.row_axis != layer.output.row_axis or len(x.shape) != len(layer.output.shape):
        return False
    # behind the row axis come the others, then those in front: the last must be the summed one
    return x.row_axis is None or (
        (x.row_axis == 0 or prod(x.shape[: x.row_axis]) == 1) and (x.row_axis < len(x.shape) - 1)
    )


def is_whole_matrix(x: Tensor, layer: Layer) -> bool:
    """Whether the left operand is a matrix without a row axis, and the result has its rows."""
    shape, axis = layer.output.shape, layer.output.row_axis
    alone = len(x.shape) == len(shape) > 1 and prod(shape[:-2]) == 1
    return alone and x.row_axis is None and axis == len(shape) - 2


def _addend(layer: Layer) -> np.ndarray | None:
    """The constant, one for all rows of the matrix, that the layer behind a product adds."""
    after = layer.epilogue[0] if layer.epilogue else None
    if after is None or after.op_type != "Add" or len(after.constants) != 1:
        return None
    (addend,) = after.constants.values()
    columns = layer.output.shape[-1]
    alike = addend.size in (1, columns) and (addend.shape or (1,))[-1] == addend.size
    return np.ravel(addend) if alike and addend.dtype == np.float32 else None


def _packed_once(
    layer: Layer, alpha: float, beta: float, *, halves: bool = False
) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    def packed() -> tuple[np.ndarray, np.ndarray]:
        weights = layer.constants[1]
        if layer.attributes.get("transB"):
            weights = weights.T
        outputs = weights.shape[-1]
        if halves:
            matrix = packing.gemm_weights(weights.view(np.uint16), "uint16")
        else:
            one = weights if alpha == 1 else defer(_times, weights, alpha, dtype="float32")
            matrix = packing.gemm_weights(one)
        return matrix, packing.conv_bias(_bias(layer, outputs, beta), outputs)

    return memoize(packed)


def _times(weights: np.ndarray, factor: float) -> np.ndarray:
    return np.asarray(weights, np.float32) * np.float32(factor)


def _bias(layer: Layer, outputs: int, beta: float) -> np.ndarray:
    """What is added to the products, (outputs,)."""
    bias = np.zeros(outputs, np.float32)
    if 2 in layer.constants:
        bias += np.float32(beta) * layer.constants[2].reshape(-1)
    following = _addend(layer)
    return bias if following is None else bias + following
