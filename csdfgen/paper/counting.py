"""The counts of Table III in paper 002, with one actor per ONNX node and one buffer per edge.

Algorithm 1 as printed does not give the table: its line 9 gives ReLU, BatchNormalization, 1x1 convolutions and 2x2/2 pools one
phase each, so that their tensors are stored whole. The rules below do; those that are not printed were taken from the authors'
published tool, espamAI, commit ead19f1 of 2020-03-11:

 - Dropout and changes of shape vanish, an Add of a constant is part of its producer; every other
   node is an actor (a Mul by a constant too), and every edge, those of input and output too, has a
   buffer of its own: a tensor with four readers counts four times. 4 bytes a value, MB = 10^6, m =
   parameters + buffers. LRN adds twice its output to the parameters.
 - m_DL: a buffer is the whole tensor.
 - m_our: convolution, pool, ReLU, BatchNormalization and LRN have a phase for every output row;
   Concat and Add take from each producer at that producer's rates and emit their whole tensor in
   one phase; the rest has one phase. The buffer of a channel is its largest single production or
   consumption; self-loops (k - s) * W * C count.
 - The last layer stays whole: the tool walks from the output to the input, makes every producer it
   meets a row high, and leaves out entry 0 of that walk. That entry was meant to be the input
   (which has number 0), but is the output, so that the output's producer is never reached. This matters in
   tiny YOLO v2 only, which ends in a convolution of 12 rows.
 - time: a published cost per operation, and 5 microseconds for every phase of a layer whose time is
   not 0; both are in the profile of the board.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from math import prod

from csdfgen.devices.catalogue import device
from csdfgen.devices.model import find_rule
from csdfgen.devices.profile import DeviceProfile, OperatorCost
from csdfgen.model.network import Layer, Network, Tensor
from csdfgen.model.rows import Window
from csdfgen.ops import get_operator

BYTES = 4
DEVICE = "jetson-tx2"
"""The profile whose published costs and time a phase are used (`csdfgen devices jetson-tx2` prints
them).
"""

VANISHING = ("Identity", "Dropout", "Reshape", "Flatten", "Squeeze", "Unsqueeze")
ROW_PHASED = ("Conv", "MaxPool", "AveragePool", "Relu", "LeakyRelu", "BatchNormalization", "LRN")
JOINING = ("Concat", "Add", "Sum")


@dataclass(frozen=True, slots=True)
class Node:
    """One actor as the authors count it. sources: index of the producer of each input, None for the
    network's input.

    last: it gives the network's output.
    """

    layer: Layer
    sources: tuple[int | None, ...]
    tensors: tuple[Tensor, ...]
    last: bool = False

    @property
    def kind(self) -> str:
        return self.layer.op_type


@dataclass(frozen=True, slots=True)
class Rules:
    """Two rules that the print leaves open, to show what each is worth.

    last_whole: the layer that gives the network's output has one phase. top_padding: the padding
    above the map is taken off the rows of the first phase (line 33).
    """

    last_whole: bool = True
    top_padding: bool = True


AS_PRINTED = Rules()
"""The rules that give the printed table."""


@dataclass(frozen=True, slots=True)
class Count:
    """A row of Table III before rounding: MB (10^6 bytes) and frames per second."""

    parameters: int
    buffers_dl: int
    buffers_our: int
    seconds: float
    phases: int

    @property
    def m_dl(self) -> float:
        return (self.parameters + self.buffers_dl) / 1e6

    @property
    def m_our(self) -> float:
        return (self.parameters + self.buffers_our) / 1e6

    @property
    def tau_dl(self) -> float:
        return 1 / self.seconds

    @property
    def tau_our(self) -> float:
        return 1 / (self.seconds + phase_seconds() * self.phases)


def nodes(network: Network) -> tuple[Node, ...]:
    """The network's layers as the authors' actors, in order."""
    found: list[Node] = []
    made_by: dict[str, int | None] = {t.name: None for t in network.inputs}
    for layer in network.layers:
        computed = [t for t in layer.inputs if t is not None]
        adds_constant = layer.op_type == "Add" and len(computed) == 1
        if layer.op_type in VANISHING or adds_constant:
            made_by.update((t.name, made_by[computed[0].name]) for t in layer.outputs)
            continue
        made_by.update((t.name, len(found)) for t in layer.outputs)
        found.append(Node(layer, tuple(made_by[t.name] for t in computed), tuple(computed)))
    ends = {made_by[output.tensor.name] for output in network.outputs if output.tensor is not None}
    return tuple(replace(node, last=index in ends) for index, node in enumerate(found))


def _window(node: Node) -> Window | None:
    windowed = node.kind in ("Conv", "MaxPool", "AveragePool")
    return get_operator(node.layer).window(node.layer) if windowed else None


def _phased(node: Node, rules: Rules) -> bool:
    """Whether the actor has a phase for every output row."""
    if node.last and rules.last_whole:
        return False
    return node.kind in ROW_PHASED or (node.kind == "Mul" and len(node.tensors) == 1)


def _largest_production(node: Node | None, tensor: Tensor, rules: Rules) -> int:
    """Most values that one phase of the producer gives; the network's input comes row by row."""
    if node is None or _phased(node, rules):
        return tensor.elements // tensor.rows
    return tensor.elements


def _largest_consumption(node: Node, tensor: Tensor, production: int, rules: Rules) -> int:
    """Most values that one phase of the reader takes."""
    if node.kind in JOINING:
        return production
    if not _phased(node, rules):
        return tensor.elements
    window = _window(node)
    row = tensor.elements // tensor.rows
    if window is None:
        return row
    return row * max(_consumed_rows(window, tensor.rows, node.layer.output.rows, rules))


def _consumed_rows(window: Window, height: int, phases: int, rules: Rules) -> list[int]:
    """First kernel - padding, then stride, the rest last; a surplus is cut from the tail."""
    padding = window.pad_top if rules.top_padding else 0
    wanted = [max(0, window.kernel - padding)] + [window.stride] * (phases - 1)
    left, rows = height, []
    for index, value in enumerate(wanted):
        rows.append(left if index == phases - 1 else min(value, left))
        left -= rows[-1]
    return rows


def _self_loop(node: Node, tensor: Tensor, rules: Rules) -> int:
    window = _window(node)
    if window is None or window.stride >= window.kernel or _phases(node, rules) == 1:
        return 0
    return (window.kernel - window.stride) * (tensor.elements // tensor.rows)


@cache
def _published() -> DeviceProfile:
    return device(DEVICE)


def phase_seconds() -> float:
    """Seconds that each phase adds in a layer with a time above 0."""
    launch = _published().processor.launch
    assert launch is not None
    return launch.value


def _published_cost(layer: Layer) -> OperatorCost | None:
    """What the authors published for a layer's kind; what the profile adds for other networks is
    left out.
    """
    cost = find_rule(_published(), layer)
    return cost if cost is not None and cost.time.origin == "published" else None


def has_time(layer: Layer) -> bool:
    """Whether the published model has a time for such a layer."""
    return _published_cost(layer) is not None


def _seconds(node: Node) -> float:
    """Time of a layer by the published model: cost per operation times operations."""
    cost = _published_cost(node.layer)
    return cost.time.value * _operations(node, cost.work) if cost is not None else 0.0


def _operations(node: Node, work: str) -> int:
    """Operations of a layer as the published model counts them, in the unit of its cost."""
    out = node.layer.output
    if work == "tap":
        size: int = node.layer.attributes["size"]
        return size * prod(out.shape[2:])
    if work == "element":
        return out.elements
    if node.kind != "Conv":
        return node.tensors[0].elements * out.elements
    return node.tensors[0].shape[1] * out.elements * prod(node.layer.attributes["kernel_shape"])


def _phases(node: Node, rules: Rules) -> int:
    return node.layer.output.rows if _phased(node, rules) else 1


def count(network: Network, rules: Rules = AS_PRINTED) -> Count:
    """Count a network (unfused, as loaded) as Table III does."""
    actors = nodes(network)
    parameters = network.parameter_bytes
    dl = our = 0
    for node in actors:
        if node.kind == "LRN":
            parameters += 2 * node.layer.output.elements * BYTES
        for source, tensor in zip(node.sources, node.tensors, strict=True):
            producer = None if source is None else actors[source]
            production = _largest_production(producer, tensor, rules)
            consumption = _largest_consumption(node, tensor, production, rules)
            dl += tensor.elements
            our += max(production, consumption) + _self_loop(node, tensor, rules)
    for output in network.outputs:
        if output.tensor is not None:
            dl += output.tensor.elements
            our += output.tensor.elements
    times = [(_seconds(node), _phases(node, rules)) for node in actors]
    seconds = sum(time for time, _ in times)
    phases = sum(phases for time, phases in times if time)
    return Count(parameters, dl * BYTES, our * BYTES, seconds, phases)
