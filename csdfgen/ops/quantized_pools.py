"""How are quantized tensors averaged? QLinearAveragePool, QLinearGlobalAveragePool.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md. Over windows, values are
summed one after the other, as onnxruntime does; over a whole map, integers are, which is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod
from types import MappingProxyType

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Node
from csdfgen.model.rows import Rows
from csdfgen.ops.base import (
    MICROSOFT,
    Call,
    Emit,
    Mode,
    Operator,
    Scratch,
    Takes,
    Work,
    takes_single_images,
)
from csdfgen.ops.integers import (
    BYTES,
    LARGEST,
    TWICE,
    Channelwise,
    Rescaled,
    build_byte_layer,
    get_scale,
    get_zero,
    limits,
    multipliers,
    round_values,
    rounds_twice,
    shift_sums,
    uses_shifts,
)
from csdfgen.ops.pooling import (
    AVERAGE_POOL,
    GLOBAL_AVERAGE_POOL,
    count_taps,
    divisor,
    pool_over_all,
    pool_sliding,
)
from csdfgen.ops.reducing import constant, sum_over
from csdfgen.ops.windows import list_windows, taps


def _build_pool(base: Callable[..., Layer]) -> Callable[[Node], Layer]:
    def build(node: Node) -> Layer:
        if int(node.attributes.get("channels_last", 0)):
            raise ModelError(
                "channels_last=1 is not supported; export the model with channels first"
            )
        return build_byte_layer(partial(base, dtypes=BYTES))(node)

    return build


def _sum_type(layer: Layer) -> str:
    """The type in which the sum over a map of bytes is exact."""
    if uses_shifts(layer):
        return "int32"
    return "float32" if 255 * _pixels(layer) <= LARGEST["float32"] else "float64"


def _pixels(layer: Layer) -> int:
    return prod(layer.attributes["kernel_shape"])


def rescale_average(layer: Layer) -> tuple[Rescaled, int]:
    """What becomes of the sum over a map, and what is added to it before."""
    pixels, zeros = _pixels(layer), average_zeros(layer)
    factor = np.float32(get_scale(layer, "x") / (get_scale(layer, "y") * np.float32(pixels)))
    low, high = limits(layer.attributes["y"].dtype)
    rescaled = Rescaled(
        Channelwise(factor),
        zero=zeros[1],
        low=low,
        high=high,
        shifts=uses_shifts(layer),
    )
    return rescaled, -zeros[0] * pixels


def is_averaged_as_stored(layer: Layer) -> bool:
    """Whether windows are averaged as TensorFlow Lite does, without zero points."""
    x, y = layer.attributes["x"], layer.attributes["y"]
    return rounds_twice(layer) and layer.op_type == "QLinearAveragePool" and x == y


def average_zeros(layer: Layer) -> tuple[int, int]:
    """What is subtracted from integers of windows, and added to their averages."""
    return (0, 0) if is_averaged_as_stored(layer) else (get_zero(layer, "x"), get_zero(layer, "y"))


def find_count_shifts(layer: Layer, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Multipliers and shifts of averages of so many integers each, float32, by integers alone.

    Source of what TensorFlow Lite does: QuantizedMeanOrSum and AveragePool in tensorflow/lite/kernels/internal/reference;
    windows are divided, and ties go away from zero, as do those of a product with a little more than the reciprocal.
    """
    if rounds_twice(layer) and layer.op_type == "QLinearGlobalAveragePool":
        m, s = multipliers(np.float64(get_scale(layer, "x")) / np.float64(get_scale(layer, "y")))
        shift = np.minimum(np.frexp(counts)[1] - 1, s + TWICE + 31)
        return (m << shift) // counts.astype(np.int64), s - shift
    if is_averaged_as_stored(layer):
        s = 30 + np.ceil(np.log2(counts)).astype(np.int64)
        return (np.int64(1) << s) // counts.astype(np.int64) + 1, s
    return multipliers(get_scale(layer, "x") / (get_scale(layer, "y") * counts))


def _by_integers(
    layer: Layer,
    sums: np.ndarray,
    by: tuple[np.ndarray, np.ndarray],
    result: np.ndarray,
    scratch: Scratch,
) -> list[Call]:
    """Calls that make `result` of sums by integers alone."""
    wide = scratch.take(sums.shape, "int64")
    calls = shift_sums(
        wide,
        by,
        average_zeros(layer)[1],
        *limits(layer.attributes["y"].dtype),
        lambda function, numbers: (function, (wide, numbers, wide)),
    )
    return [(np.copyto, (wide, sums)), *calls, (np.copyto, (result, wide, "unsafe"))]


def _whole_map_kernel(layer: Layer) -> Emit:
    """Sums are exact; round((sum - pixels * x0) * (xs / (ys * pixels))) + y0."""
    dtype, (rescaled, rest) = np.dtype(_sum_type(layer)), rescale_average(layer)
    # rows are read along the first axis of the map, whatever axis they are stored by
    dims = tuple(range(len(layer.computed(0).shape) - 2))
    by = find_count_shifts(layer, np.float32(_pixels(layer)))

    def emit(work: Work) -> list[Call]:
        slab, state = work.slab, work.result
        part = state if work.phase.first else work.scratch.take(state.shape, dtype)
        values = work.scratch.take(slab.shape, dtype)
        calls: list[Call] = [(np.copyto, (values, slab)), sum_over(values, dims, part)]
        if not work.phase.first:
            calls.append((np.add, (state, part, state)))
        if work.phase.last:
            if rest:
                calls.append((np.add, (state, dtype.type(rest), state)))
            if uses_shifts(layer):
                calls += _by_integers(layer, state, by, state, work.scratch)
            else:
                calls += rescaled.in_place(state)
        return calls

    return emit


def _average_kernel(layer: Layer) -> Emit:
    """Values are summed one after the other, as onnxruntime does: their sums are rounded."""
    windows = list_windows(layer.attributes)
    source = layer.computed(0)
    lengths, accumulates = source.shape[2:], AVERAGE_POOL.mode(layer) is Mode.ACCUMULATE
    summed = np.dtype(_value_type(layer))
    zero, scale = summed.type(average_zeros(layer)[0]), np.float32(get_scale(layer, "x"))
    columns = [
        taps(w, Rows(0, count), n)
        for w, count, n in zip(windows[1:], layer.output.shape[3:], lengths[1:], strict=True)
    ]

    def emit(work: Work) -> list[Call]:
        slab, held, out = work.slab, work.phase.held(0), work.phase.out
        assert slab is not None
        values = work.scratch.take(slab.shape, summed)
        sums = work.result if accumulates else work.scratch.take(work.result.shape, summed)
        calls: list[Call] = [(np.copyto, (values, slab))]
        if zero:
            calls.append((np.subtract, (values, zero, values)))
        if not uses_shifts(layer):
            calls.append((np.multiply, (values, scale, values)))
        if work.phase.first or not accumulates:
            calls.append((sums.fill, (0,)))
        rows = taps(windows[0], out, lengths[0])
        if accumulates:
            top = windows[0].pad_top
            rows = tuple((row + top, Rows(0, 1)) for row in range(held.start, held.stop))
        for chosen in product(rows, *columns):
            read, written = [], []
            for k, (window, (tap, run)) in enumerate(zip(windows, chosen, strict=True)):
                first = run.start * window.stride - window.pad_top + tap * window.dilation
                start = first - (held.start if k == 0 else 0)
                read.append(slice(start, start + (len(run) - 1) * window.stride + 1, window.stride))
                low = out.start if k == 0 else 0
                written.append(slice(run.start - low, run.stop - low))
            target = sums[tuple(written)]
            calls.append((np.add, (target, values[tuple(read)], target)))
        return (
            calls
            if accumulates and not work.phase.last
            else calls + finished(out, sums, work.result, work.scratch)
        )

    def finished(out: Rows, sums: np.ndarray, result: np.ndarray, scratch: Scratch) -> list[Call]:
        """Zero points are added before rounding here."""
        y = layer.attributes["y"]
        if uses_shifts(layer):
            by = find_count_shifts(layer, _counts(layer, out))
            return _by_integers(layer, sums, by, result, scratch)
        calls: list[Call] = [
            (np.divide, (sums, _counts(layer, out), sums)),
            (np.divide, (sums, np.float32(get_scale(layer, "y")), sums)),
            (np.add, (sums, np.float32(get_zero(layer, "y")), sums)),
            *round_values(sums, 0, *limits(y.dtype)),
        ]
        return calls if sums is result else [*calls, (np.copyto, (result, sums, "unsafe"))]

    return emit


def _value_type(layer: Layer) -> str:
    """The type in which windows are summed."""
    return "int32" if uses_shifts(layer) else "float32"


def _counts(layer: Layer, out: Rows) -> np.ndarray:
    """What sums are divided by, for output rows `out`: (rows, ..., 1, 1), or one number."""
    attributes = layer.attributes
    if attributes["count_include_pad"]:
        return constant(prod(attributes["kernel_shape"]), "float32")
    spans = (out, *(Rows(0, n) for n in layer.output.shape[3:]))
    each = zip(list_windows(attributes), spans, layer.computed(0).shape[2:], strict=True)
    return divisor([count_taps(*one, include_pad=False) for one in each], "float32")


def _pool(
    twin: Operator,
    op_type: str,
    build: Callable[[Node], Layer],
    kernel: Callable[[Layer], Emit],
    state: Callable[[Layer], str],
) -> Operator:
    return replace(
        twin,
        op_type=op_type,
        build=build,
        kernel=kernel,
        state=lambda layer: Format(state(layer)),
        takes=lambda layer, position: Takes.EVEN,
        joins=takes_single_images,
        since=1,
        domain=MICROSOFT,
        constant_inputs=frozenset({1, 2, 3, 4}),
        attributes=MappingProxyType({**twin.attributes, "channels_last": 0}),
        notes="",
    )


OPERATORS: tuple[Operator, ...] = (
    _pool(
        AVERAGE_POOL, "QLinearAveragePool", _build_pool(pool_sliding), _average_kernel, _value_type
    ),
    _pool(
        GLOBAL_AVERAGE_POOL,
        "QLinearGlobalAveragePool",
        _build_pool(pool_over_all),
        _whole_map_kernel,
        _sum_type,
    ),
)
