"""What did the reproduction of paper 002 find? The results of Algorithm 1 as printed, of its capacities,
and of the rules that it leaves open.

`csdfgen reproduce findings` prints all of it; docs/paper.md explains it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx

import zoo_models
from csdfgen.dataflow.graph import Actor, Channel, CsdfGraph, repetition_vector
from csdfgen.errors import InconsistentError
from csdfgen.model.network import Network
from csdfgen.model.rows import Window
from csdfgen.ops import get_operator
from csdfgen.paper.cells import Cell
from csdfgen.paper.counting import AS_PRINTED, Rules, count
from csdfgen.paper.deadlock import Full, find_full_channels, largest_rates
from csdfgen.paper.printed import TABLE_2, TABLE_3
from csdfgen.paper.table2 import plan_example
from csdfgen.paper.table3 import load_network
from csdfgen.phases.algorithm1 import algorithm1, last_phase_rows
from csdfgen.phases.conversion import convert, csdf_graph
from csdfgen.reading.loader import load


@dataclass(frozen=True, slots=True)
class Iteration:
    """What an iteration of a graph takes and gives. unbalanced: "", or where the balance equations
    contradict each other.
    """

    images: int
    results: int
    unbalanced: str = ""

    def __str__(self) -> str:
        if self.unbalanced:
            return f"none, unbalanced at {self.unbalanced}"
        return " in, ".join(f"{n:,}" for n in (self.images, self.results)) + " out"


@dataclass(frozen=True, slots=True)
class Finding:
    """One network of Table III. MB is 10^6 bytes.

    m_algorithm1: parameters and largest rates of Algorithm 1's graph. leaving: windows that do not
        end with the map;
    negative: layers that would take less than no rows in their last phase; iteration: of Algorithm
    1 with lines 38 and 42 to the letter. full: channels on which a row a phase stops in
    largest-rate capacities.
    """

    network: str
    m_dl: float
    m_algorithm1: float
    m_printed: float
    leaving: tuple[str, ...]
    negative: tuple[str, ...]
    iteration: Iteration
    full: tuple[Full, ...]


def findings(name: str) -> Finding:
    """What Algorithm 1 as printed, its last phases and its capacities do to a network of Table III."""
    network = load_network(name, weights=False)
    conversion = convert(network, 1)
    graph, rows = algorithm1(conversion), row_graph(network)
    capacities = largest_rates(graph)
    buffers = sum(capacities[channel.name] * channel.token_bytes for channel in graph.channels)
    windows = dict(_windows(network))
    return Finding(
        network=name,
        m_dl=count(network).m_dl,
        m_algorithm1=(buffers + network.parameter_bytes) / 1e6,
        m_printed=TABLE_3[name][1],
        leaving=tuple(
            layer for layer, (window, height) in windows.items() if _left(window, height)
        ),
        negative=tuple(
            layer for layer, (window, _) in windows.items() if last_phase_rows(window) < 0
        ),
        iteration=_iteration(algorithm1(conversion, tokens="rows", literal_last=True)),
        full=find_full_channels(rows, largest_rates(rows)),
    )


def _windows(network: Network) -> Iterator[tuple[str, tuple[Window, int]]]:
    """Layers with a window, and the rows that it moves over."""
    for layer in network.layers:
        window, tensor = get_operator(layer).window(layer), layer.inputs[0]
        windowed = layer.op_type in ("Conv", "MaxPool", "AveragePool")
        if windowed and window is not None and tensor is not None:
            yield layer.name, (window, tensor.rows)


def _left(window: Window, height: int) -> int:
    """Rows, padding counted, below the last place of a window."""
    return (height + window.pad_top + window.pad_bottom - window.extent) % window.stride


def _iteration(graph: CsdfGraph) -> Iteration:
    try:
        firings = repetition_vector(graph)
    except InconsistentError as error:
        return Iteration(0, 0, error.where)
    phases = graph.phases
    images, results = (
        next(firings[name] // phases[name] for name in firings if name.startswith(kind))
        for kind in ("input:", "output:")
    )
    return Iteration(images, results)


# Capacities -------------------------------------------------------------------------------------


def row_graph(network: Network) -> CsdfGraph:
    """A network as loaded, a row a phase, data channels alone."""
    return csdf_graph(convert(network, 1), tokens="rows", overlap=False)


def skip_graph() -> CsdfGraph:
    """The least graph that stops in largest-rate capacities: a row that goes round a 3x3
    convolution to an Add.
    """
    ones = (1,) * 8
    actors = (Actor("split", ones), Actor("conv", ones), Actor("add", ones))
    channels = (
        Channel("split->conv", "split", "conv", ones, (2, 1, 1, 1, 1, 1, 1, 0)),
        Channel("conv->add", "conv", "add", ones, ones),
        Channel("skip", "split", "add", ones, ones),
    )
    return CsdfGraph("skip", actors, channels)


# Rules that the print leaves open ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reading:
    """m_our of a network, in MB, by another reading of the rules."""

    network: str
    rule: str
    m_our: float
    printed: float

    @property
    def match(self) -> bool:
        return round(self.m_our) == self.printed


def symmetric_googlenet() -> Network:
    """GoogLeNet with strided pools that are padded on every side, not below and to the right alone: the
    maps are as large.
    """
    model = zoo_models.ZOO["googlenet"].build(weights=False)
    for node in model.graph.node:
        for attribute in node.attribute:
            below = attribute.name == "pads" and list(attribute.ints) == [0, 0, 1, 1]
            if node.op_type == "MaxPool" and below:
                attribute.CopyFrom(onnx.helper.make_attribute("pads", [1, 1, 1, 1]))
    return load(model)


_READINGS = (
    ("tiny_yolo_v2", "as counted", AS_PRINTED),
    ("tiny_yolo_v2", "the last layer by rows, too", Rules(last_whole=False)),
    ("tiny_yolo_v2", "k rows in the first phase, whatever the padding", Rules(top_padding=False)),
    ("densenet121", "as counted", AS_PRINTED),
    ("densenet121", "k rows in the first phase, whatever the padding", Rules(top_padding=False)),
    ("googlenet", "as counted: strided pools padded below and on the right", AS_PRINTED),
)


def readings() -> Iterator[Reading]:
    """What each rule that the print leaves open is worth, where it is worth anything."""
    for name, rule, rules in _READINGS:
        ours = count(load_network(name, weights=False), rules).m_our
        yield Reading(name, rule, ours, TABLE_3[name][1])
    padded, rule = (count(symmetric_googlenet()).m_our, "strided pools padded by 1 on every side")
    yield Reading("googlenet", rule, padded, TABLE_3["googlenet"][1])


# Misprints --------------------------------------------------------------------------------------


def misprints() -> Iterator[Cell]:
    """Numbers of the text and of Table II that its own other numbers contradict; ours come from our plans."""
    two, three, four = map(plan_example, TABLE_2[1:])
    crop = get_operator(four.network.layers[1]).window(four.network.layers[1])
    assert crop is not None
    of_three = {work.name: len(work.phases) for work in four.conversion.actors}
    decrease = 100 * (1 - TABLE_2[3].throughput / TABLE_2[0].throughput)
    for what, printed, ours, note in (
        ("Ex2, b12, bytes", 786, two.regions[two.rolling[0].name].size // 4, "24 * 32 * 1"),
        ("Ex2, step 4, phase of n2", 1, two.order[3][1] + 1, "n21 stands for n22"),
        ("Ex3, last phase of n1 in Table II", 21, len(three.conversion.actors[0].phases), "the text has 32"),
        ("Ex4, less throughput, %", 12.7, decrease, "by the rates of its own table, 308 and 334"),
        ("Ex4, rows that n32 and n33 crop to", 6, crop.extent, "6 rows are more than the 5 that come in"),
        ("Figure 1, functions in F3", 3, of_three["n3"], "[conv, conv, conv] is shortened to [4*conv]"),
    ):  # fmt: skip
        yield Cell("misprints", what, "", "", printed, ours, int(isinstance(printed, float)), note)
