"""The tables of docs/paper.md. `python -m tests.paper_page` computes them anew and writes them into the page."""

from __future__ import annotations

import re

from csdfgen.algorithm1 import algorithm1
from csdfgen.conversion import convert, csdf_graph
from csdfgen.graph import Actor, Channel, CsdfGraph
from csdfgen.network import Network
from csdfgen.ops import operator_of
from csdfgen.paper.counting import count
from csdfgen.paper.deadlock import largest_rates, stuck
from csdfgen.paper.printed import TABLE_3
from csdfgen.paper.table3 import COUNTINGS, load_network, reproduce_table3
from tests.readme import ROOT

PAGE = ROOT / "docs" / "paper.md"
BLOCK = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

COLUMNS = ("m_DL", "m_our", "reduction", "tau_DL", "tau_our", "decrease")


def skip_graph() -> CsdfGraph:
    """The least graph that stops in largest-rate capacities: a row that goes round a 3x3 convolution to an Add."""
    ones = (1,) * 8
    actors = (Actor("split", ones), Actor("conv", ones), Actor("add", ones))
    channels = (
        Channel("split->conv", "split", "conv", ones, (2, 1, 1, 1, 1, 1, 1, 0)),
        Channel("conv->add", "conv", "add", ones, ones),
        Channel("skip", "split", "add", ones, ones),
    )
    return CsdfGraph("skip", actors, channels)


def row_graph(network: Network) -> CsdfGraph:
    """A network as loaded, a row a phase, data channels alone."""
    return csdf_graph(convert(network, 1), tokens="rows", overlap=False)


def layers_that_leave_rows(network: Network) -> list[str]:
    """Layers whose (H + pads - k) is no multiple of the stride."""
    found = []
    for layer in network.layers:
        window = operator_of(layer).window(layer)
        tensor = layer.inputs[0]
        if layer.op_type in ("Conv", "MaxPool", "AveragePool") and window is not None and tensor is not None:
            left = (tensor.rows + window.pad_top + window.pad_bottom - window.extent) % window.stride
            if left:
                found.append(layer.name)
    return found


def _line(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _table(*lines: str) -> str:
    head = lines[0]
    return "\n".join([head, "|" + "---|" * (head.count("|") - 1), *lines[1:]]) + "\n"


def counted(counting: str) -> str:
    """Table III by one counting; a bold cell differs from the printed one."""
    cells = list(reproduce_table3((counting,)))
    lines = [_line("network", *COLUMNS)]
    for name in TABLE_3:
        row = [cell for cell in cells if cell.network == name]
        shown = [f"{c.ours:.2f} / {c.printed:g}" for c in row]
        lines.append(_line(name, *(text if c.match else f"**{text}**" for c, text in zip(row, shown, strict=True))))
    return _table(*lines)


def findings() -> str:
    """What Algorithm 1 as printed, its capacities and its steps do to the seven networks."""
    lines = [
        _line("network", "m_DL, MB", "m_our of Algorithm 1, MB", "printed m_our, MB", "layers that leave rows", "largest rates")
    ]
    for name, printed in TABLE_3.items():
        network = load_network(name, weights=False)
        graph = algorithm1(convert(network, 1))
        capacities = largest_rates(graph)
        buffers = sum(capacities[c.name] * c.token_bytes for c in graph.channels)
        rows = row_graph(network)
        full = stuck(rows, largest_rates(rows))
        lines.append(
            _line(
                name,
                f"{count(network).m_dl:.1f}",
                f"{(buffers + network.parameter_bytes) / 1e6:.1f}",
                f"{printed[1]:g}",
                len(layers_that_leave_rows(network)),
                f"deadlock; last full channel `{full[-1].channel}`" if full else "complete",
            )
        )
    return _table(*lines)


MAKERS = {"findings": findings, **{name: (lambda name=name: counted(name)) for name in COUNTINGS}}


def with_tables(text: str) -> str:
    """The page with every table computed anew."""
    return BLOCK.sub(lambda found: f"{found[1]}\n{MAKERS[found[2]]()}\n{found[3]}", text)


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
