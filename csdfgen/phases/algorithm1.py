"""Which graph does Algorithm 1 of paper 002 give, as it is printed?

It is an alternative to the exact rates of `conversion` (`--rates paper`), which allows to check the figure of the paper
and to show the weaknesses of the algorithm. Three gaps of the listing are filled from the text of the paper: an actor
with one phase produces and consumes whole tensors (line 31 alone would give one row and an inconsistent graph); the last
phase consumes all remaining rows (section V-B: "all the remaining data"), where lines 38 and 42 leave rows if
(H + pads - k) is no multiple of s; a data layer has one phase per row on input (Table II, Ex4) and one phase on output.
`literal_last=True` applies lines 38 and 42 literally.
"""

from __future__ import annotations

from csdfgen.dataflow.graph import Actor, Channel, CsdfGraph
from csdfgen.model.network import Layer, Tensor
from csdfgen.model.rows import Window
from csdfgen.ops import get_operator
from csdfgen.ops.base import axis_height
from csdfgen.phases.conversion import ActorWork, Conversion, describe_function, token_unit


def _window(layer: Layer, position: int) -> Window:
    """Sliding window of a layer: one row for elementwise layers, the whole map for other layers without a window."""
    operator = get_operator(layer)
    window = operator.window(layer)
    if window is not None:
        return window
    tensor = layer.computed(position)
    if operator.rowwise:
        return Window(1)
    return Window(axis_height(tensor, layer.input_axes[position]))


def _phase_count(layer: Layer) -> int:
    """Lines 9 to 12: P_i."""
    position = next(k for k, tensor in enumerate(layer.inputs) if tensor is not None)
    window = _window(layer, position)
    tensor = layer.computed(position)
    height = axis_height(tensor, layer.input_axes[position])
    padding = window.pad_top + window.pad_bottom
    if (window.stride >= window.extent and padding == 0) or window.extent >= height:
        return 1
    return max(1, (height + padding - max(window.extent, window.stride)) // window.stride + 1)


def _phases(work: ActorWork) -> int:
    if work.layer is not None:
        return _phase_count(work.layer)
    return work.writes[0].tensor.rows if work.kind == "input" else 1


def _produced(tensor: Tensor, count: int) -> tuple[int, ...]:
    """Lines 29 to 31: rows of output a phase; the last phase has the rest."""
    if count == 1:
        return (tensor.rows,)
    return _remainder_last([1] * count, tensor.rows)


def _middle(window: Window) -> int:
    """Lines 36 and 40: rows of input that a phase between the first and the last takes."""
    return min(window.stride, window.extent)


def last_phase_rows(window: Window) -> int:
    """Lines 38 and 42, literally: rows of input that the last of several phases takes, which may be negative."""
    return _middle(window) - window.pad_bottom


def _consumed(window: Window, height: int, count: int, literal_last: bool) -> tuple[int, ...]:
    """Lines 32 to 42: rows of input a phase.

    literal_last: the sum is that of lines 33 to 42; a negative last phase is subtracted from the phases before it.
    """
    if count == 1:
        return (height,)
    rows = [window.extent - window.pad_top] + [_middle(window)] * (count - 2)
    return _remainder_last(
        [*rows, 0], sum(rows) + last_phase_rows(window) if literal_last else height
    )


def _remainder_last(rows: list[int], total: int) -> tuple[int, ...]:
    """Rates that never exceed the total; the last one is the rest."""
    left = total
    for i, value in enumerate(rows):
        rows[i] = left if i == len(rows) - 1 else min(max(0, value), left)
        left -= rows[i]
    return tuple(rows)


def _kept(window: Window, count: int) -> int:
    """Lines 16 to 18: rows that overlap between phases."""
    return window.extent - window.stride if count > 1 and window.stride < window.extent else 0


def algorithm1(
    conversion: Conversion, *, tokens: str = "elements", literal_last: bool = False
) -> CsdfGraph:
    """The CSDF graph that Algorithm 1 of paper 002 gives for a network, independent of slab heights.

    literal_last: the last phase by lines 38 and 42 instead of "all the remaining data"; the graph may be inconsistent.
    """
    counts = {work.name: _phases(work) for work in conversion.actors}
    writer = {w.tensor.name: work for work in conversion.actors for w in work.writes}
    actors: list[Actor] = []
    channels: list[Channel] = []
    for work in conversion.actors:
        count = counts[work.name]
        actors.append(
            Actor(work.name, tuple(_spread(sum(work.times), count)), describe_function(work))
        )
        for read in work.reads:
            tensor = read.tensor
            source = writer[tensor.name]
            unit, size = token_unit(tensor, tokens)
            window = (
                _window(work.layer, read.position)
                if work.layer is not None
                else Window(tensor.rows)
            )
            name = f"{tensor.name}->{work.name}"
            if any(c.name == name for c in channels):
                name += f"#{read.position}"
            production = tuple(unit * n for n in _produced(tensor, counts[source.name]))
            consumption = tuple(
                unit * n for n in _consumed(window, tensor.rows, count, literal_last)
            )
            channels.append(
                Channel(name, source.name, work.name, production, consumption, 0, size, "data")
            )
            kept = unit * _kept(window, count)
            if kept:
                rates = (kept,) * (count - 1) + (0,), (0,) + (kept,) * (count - 1)
                channels.append(
                    Channel(f"overlap:{name}", work.name, work.name, *rates, 0, size, "overlap")
                )
    return CsdfGraph(conversion.network.name, tuple(actors), tuple(channels))


def _spread(total: int, count: int) -> list[int]:
    """A total divided among `count` phases as evenly as integers allow."""
    return [total * (i + 1) // count - total * i // count for i in range(count)]
