"""Positions of sliding windows: padding, output lengths and taps, one axis at a time.

Sources: the ONNX pages of Conv, ConvTranspose, MaxPool, AveragePool and LpPool
(https://onnx.ai/onnx/operators/), which give `auto_pad`, `pads` and `ceil_mode`;
docs/model.md for the row rule.

A window is a `csdfgen.model.rows.Window` along any spatial axis, not only along the rows:
output position p reads input positions p*stride - pad_top + j*dilation for its taps
j = 0 .. kernel-1, as far as they are inside the input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from csdfgen.errors import ModelError
from csdfgen.model.network import Node
from csdfgen.model.rows import Rows, Window

AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")

WINDOW: Mapping[str, Any] = dict.fromkeys(("dilations", "kernel_shape", "pads", "strides"))
"""Attributes of operators with windows: none has a default that does not depend on the others."""


def resolve_pads(
    auto_pad: str,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
    spatial: Sequence[int],
) -> tuple[int, ...]:
    """Explicit pads (all begins, then all ends) for windows over an input of lengths `spatial`.

    SAME_* pads so that an axis of length n gives ceil(n / stride) positions; the odd pad goes to
    the end for SAME_UPPER and to the beginning for SAME_LOWER. `pads` counts for NOTSET only.
    Raises ModelError for an unknown `auto_pad`.

    >>> resolve_pads("SAME_UPPER", (3, 2), (2, 1), (1, 1), (0, 0, 0, 0), (6, 6))
    (0, 0, 1, 1)
    """
    if auto_pad not in AUTO_PADS:
        raise ModelError(
            f"auto_pad='{auto_pad}' is not one of {', '.join(AUTO_PADS)}; export explicit pads"
        )
    if auto_pad == "NOTSET":
        return tuple(pads)
    if auto_pad == "VALID":
        return (0,) * (2 * len(spatial))
    begins, ends = [], []
    for k, s, d, n in zip(kernel, strides, dilations, spatial, strict=True):
        total = max(0, (-(-n // s) - 1) * s + (k - 1) * d + 1 - n)
        begin = total // 2 if auto_pad == "SAME_UPPER" else -(-total // 2)
        begins.append(begin)
        ends.append(total - begin)
    return (*begins, *ends)


def _lengths(node: Node, name: str, count: int, default: int, least: int | None) -> tuple[int, ...]:
    """An attribute that holds `count` integers, each at least `least` (None: any)."""
    values = tuple(int(v) for v in node.attributes.get(name) or (default,) * count)
    if len(values) != count:
        raise ModelError(
            f"attribute '{name}' has {len(values)} values, the input's spatial axes need {count}"
        )
    if least is not None and min(values, default=least) < least:
        raise ModelError(
            f"attribute '{name}'={list(values)} holds {min(values)}, the least allowed is {least}"
        )
    return values


def window_attributes(
    node: Node,
    kernel: Sequence[int],
    spatial: Sequence[int],
    *,
    same_ignores_dilations: bool = False,
    crops: bool = False,
) -> dict[str, Any]:
    """The attributes kernel_shape, strides, dilations and pads of a node, complete, with auto_pad
    resolved.

    kernel: window lengths; spatial: lengths of the input's spatial axes.
    same_ignores_dilations: pad SAME_* as if the windows had no holes, as onnxruntime's pools do.
    crops: accept negative pads, which cut the input.
    Raises ModelError for wrong counts and for values out of range.
    """
    rank = len(spatial)
    if len(kernel) != rank:
        raise ModelError(
            f"attribute 'kernel_shape' has {len(kernel)} values, the input has {rank} spatial axes"
        )
    if min(kernel, default=1) < 1:
        raise ModelError(
            f"attribute 'kernel_shape'={list(kernel)} holds {min(kernel)}, the least allowed is 1"
        )
    strides = _lengths(node, "strides", rank, default=1, least=1)
    dilations = _lengths(node, "dilations", rank, default=1, least=1)
    pads = _lengths(node, "pads", 2 * rank, default=0, least=None if crops else 0)
    holes = (1,) * rank if same_ignores_dilations else dilations
    pads = resolve_pads(
        str(node.attributes.get("auto_pad", "NOTSET")), kernel, strides, holes, pads, spatial
    )
    return {"kernel_shape": tuple(kernel), "strides": strides, "dilations": dilations, "pads": pads}


def list_windows(attributes: Mapping[str, Any]) -> tuple[Window, ...]:
    """One window per spatial axis (rows first) from attributes as `window_attributes` leaves them."""
    kernel, pads = attributes["kernel_shape"], attributes["pads"]
    rank = len(kernel)
    return tuple(
        Window(
            kernel[i], attributes["strides"][i], attributes["dilations"][i], pads[i], pads[rank + i]
        )
        for i in range(rank)
    )


def output_length(window: Window, length: int, *, ceil_mode: bool = False) -> int:
    """Positions of a window over `length` input values; 0 or less where it does not fit.

    The division truncates as in onnxruntime and ONNX's shape inference: a window that sticks out by
    less than a stride still has one position. With ceil_mode a last, incomplete position
    counts if it starts inside the input or its beginning padding.

    >>> output_length(Window(3, 2), 6), output_length(Window(3, 2), 6, ceil_mode=True)
    (2, 3)
    >>> output_length(Window(3, 3, 1, 0, 2), 4, ceil_mode=True), output_length(Window(2, 2), 1)
    (2, 1)
    """
    free = length + window.pad_top + window.pad_bottom - window.extent
    if free < 0:
        return 1 - (-free // window.stride)
    if not ceil_mode:
        return free // window.stride + 1
    count = -(-free // window.stride) + 1
    return count - 1 if (count - 1) * window.stride >= length + window.pad_top else count


def tap_outputs(window: Window, tap: int, out: Rows, length: int) -> Rows:
    """The positions in `out` whose tap `tap` is inside an input of `length` values.

    >>> tap_outputs(Window(3, pad_top=1, pad_bottom=1), 0, Rows(0, 8), 8)
    Rows(start=1, stop=8)
    """
    offset = tap * window.dilation - window.pad_top
    start = max(out.start, -(offset // window.stride))
    stop = min(out.stop, (length - 1 - offset) // window.stride + 1)
    return Rows(start, stop) if stop > start else Rows(out.start, out.start)


def taps(window: Window, out: Rows, length: int) -> tuple[tuple[int, Rows], ...]:
    """(tap, positions in `out` that read it inside the input) for every tap that is read at all.

    >>> taps(Window(3, pad_top=1, pad_bottom=1), Rows(0, 1), 8)
    ((1, Rows(start=0, stop=1)), (2, Rows(start=0, stop=1)))
    """
    low = window.pad_top - (out.stop - 1) * window.stride
    high = length - 1 + window.pad_top - out.start * window.stride
    first = max(0, -(-low // window.dilation))
    last = min(window.kernel - 1, high // window.dilation)
    found = ((tap, tap_outputs(window, tap, out, length)) for tap in range(first, last + 1))
    return tuple((tap, rows) for tap, rows in found if rows)


def read_rows(window: Window, out: Rows, length: int) -> Rows:
    """`Window.input_rows`, without rows at the border of the input that no tap reads.

    There are such rows where taps leave holes and where a whole position is in the padding.

    Ranges of later positions never start earlier, so the first rows may be ones that only a later
    position reads.

    >>> read_rows(Window(3, 2, 2, 1, 1), Rows(0, 1), 8), Window(3, 2, 2, 1, 1).input_rows(Rows(0, 1), 8)
    (Rows(start=1, stop=4), Rows(start=0, stop=4))
    """
    declared = window.input_rows(out, length)
    if not declared or (
        window.dilation == 1 and max(window.pad_top, window.pad_bottom) < window.kernel
    ):
        return declared
    # Only positions that begin in the padding above can miss the first rows; only those that end
    # below the last ones.
    above = Rows(out.start, max(out.stop, -(-window.pad_top // window.stride) + 1))
    below = Rows(
        min(out.start, max(0, (length + window.pad_top - window.extent) // window.stride)), out.stop
    )
    offset = window.pad_top
    starts = [
        r.start * window.stride - offset + t * window.dilation
        for t, r in taps(window, above, length)
    ]
    stops = [
        (r.stop - 1) * window.stride - offset + t * window.dilation + 1
        for t, r in taps(window, below, length)
    ]
    start, stop = min(starts, default=declared.start), max(stops, default=declared.start)
    return Rows(start, max(start, stop))
