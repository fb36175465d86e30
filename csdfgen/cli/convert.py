"""`csdfgen convert`: a model or a graph in, a graph file or a summary out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from csdfgen.cli.command import Command
from csdfgen.cli.options import (
    CAPACITIES,
    OUTPUT,
    JsonOption,
    ModelArgument,
    Planning,
    Tokens,
    check_suffix,
    is_graph_file,
    list_stream_refusals,
    refuse,
)
from csdfgen.cli.terminal import escape, figures_table, say, say_json, show_progress, table
from csdfgen.errors import InputError, prefix_errors
from csdfgen.model.options import declare
from csdfgen.model.units import pluralize

if TYPE_CHECKING:
    from csdfgen.cli.options import Asked
    from csdfgen.dataflow.graph import CsdfGraph
    from csdfgen.planning.plan import Plan
    from sdf3_bridge.sdf3xml import Sdf3File, WriteOptions


_FORM = "Form of the graph"

_WIDEST_RATES = 44


@dataclass(frozen=True, kw_only=True)
class Convert(Command):
    """Convert a model to a CSDF graph: SDF3 .xml, lossless .json, or .dot for Graphviz; without -o, print a summary.

    This is the default command: `csdfgen model.onnx -o graph.xml` does the same.
    """

    examples = (
        "csdfgen model.onnx -o graph.xml",
        "csdfgen model.onnx -o graph.dot --rows 1 --tokens rows",
        "csdfgen model.onnx --shape input=1x3x480x640",
        "csdfgen model.onnx --stream -o period.xml",
        "csdfgen graph.xml -o graph.json",
        "csdfgen graph.xml -o bounded.xml --capacities schedule.json --gcd --no-overlap",
    )

    model: ModelArgument
    output: Path | None = declare(
        "The output file; without it, a summary is printed.", None, "FILE", names=OUTPUT
    )
    rates: Literal["exact", "paper"] | None = declare(
        "exact: by the row rule; paper: Algorithm 1 as printed, which ignores --rows.",
        None, shown="exact",
    )  # fmt: skip
    tokens: Tokens | None = declare(
        "The token: an element of a tensor, or a row.", None, shown="elements"
    )
    serial: bool | None = declare(
        "Add a one-token self-loop to every actor, or none; without it, firings of an actor may overlap.",
        None, panel=_FORM, names=("--serial/--no-serial",),
        shown="added in .xml, and for a model in .json; otherwise unchanged",
    )  # fmt: skip
    overlap: bool = declare(
        "Include self-loops for the rows that a layer keeps between phases; SDF3's buffersize needs a graph without "
        "them.",
        True, panel=_FORM, names=("--overlap/--no-overlap",),
    )  # fmt: skip
    gcd: bool = declare(
        "Divide each channel's rates and initial tokens by their gcd (larger tokens).",
        False, panel=_FORM,
    )  # fmt: skip
    capacities: list[str] | None = declare(
        "Channel capacities in tokens: by channel, from a schedule (.json), or the buffer sizes of a graph (.xml); "
        "repeatable.",
        None, CAPACITIES, _FORM,
    )  # fmt: skip
    capacities_as: Literal["channels", "sizes"] | None = declare(
        "channels: a reverse channel that carries the free space, which every tool obeys; sizes: the bufferSize "
        "property, which SDF3 and Kiter store but ignore.",
        None, panel=_FORM, shown="channels, in .dot sizes",
    )  # fmt: skip
    stream: bool = declare(
        "The period of a plan of images of any height (schedule --stream), with initial tokens: analyses are then of a steady "
        "state.",
        False, panel=_FORM,
    )  # fmt: skip
    as_json: JsonOption = False
    planning: Planning

    def run(self) -> None:
        """Write the graph of a model or graph file, or print its summary. Raises CsdfgenError."""
        from csdfgen.cli.graphs import graph_sizes, parse_capacities
        from csdfgen.dataflow.dot import to_dot
        from csdfgen.dataflow.graph_json import write_graph
        from csdfgen.files import write_bytes
        from sdf3_bridge import sdf3xml

        asked, output = self.planning.read(), self.output
        parse_capacities(self.capacities)
        check_suffix(output, "a graph", ".xml", ".json", ".dot")
        suffix = "" if output is None else output.suffix.lower()
        of_graph, plan, taken = is_graph_file(self.model), None, dict[str, bool]()
        if self.stream:
            refuse(self._stream_refusals(asked, of_graph))
            source = sdf3xml.Sdf3File(self._graph_of_period(asked), {})
        elif of_graph:
            source = self._read_graph(asked, suffix)
        else:
            graph, plan, taken = self._graph_of_model(asked, suffix)
            source = sdf3xml.Sdf3File(graph, {})
        written = in_file = self._form(source, suffix)
        if self.serial is None and (suffix == ".xml" or (suffix == ".json" and not of_graph)):
            # they are not counted below, where nobody asked for them
            in_file = replace(written, serial="add")
        data = b""
        with prefix_errors(self.model):
            graph, sizes = sdf3xml.variant(source.graph, written)
            if suffix == ".xml":
                data = sdf3xml.to_xml(source.graph, in_file)
        if output is None:
            show = (lambda *found: say_json(_facts(*found))) if self.as_json else _summary
            show(graph, plan)
            return
        if suffix == ".json":
            write_graph(output, sdf3xml.variant(source.graph, in_file)[0])
        else:
            write_bytes(output, data or to_dot(graph, sizes).encode())
        if self.as_json:
            say_json({"output": str(output), **_facts(graph, plan), "branches": taken})
            return
        say(f"{escape(output)}: {graph_sizes(graph)}")
        for name, then in taken.items():
            say(
                f"{escape(output)}: of '{escape(name)}' the larger branch, {'then' if then else 'else'}"
            )

    def _stream_refusals(self, asked: Asked, of_graph: bool) -> Iterator[tuple[object, str]]:
        yield of_graph, f"{self.model}: is a graph; --stream is for models"
        yield self.rates, f"--rates {self.rates} is of one image; leave it or --stream out"
        yield from list_stream_refusals(asked)

    def _graph_of_period(self, asked: Asked) -> CsdfGraph:
        from csdfgen.api import plan_stream

        with show_progress() as progress:
            progress("planning")
            shapes, fixed = dict(asked.shapes), asked.fixed
            stream = plan_stream(self.model, shapes=shapes, fix=fixed, **asked.given)
        return stream.graph(tokens=self.tokens or "elements")

    def _read_graph(self, asked: Asked, suffix: str) -> Sdf3File:
        """The graph of a file with its buffer sizes, where these have a use; otherwise they are dropped
        with a warning.
        """
        from csdfgen.cli.graphs import read_graph_file
        from sdf3_bridge import sdf3xml

        given = [flag for flag, *_ in asked.typed()]
        given += ["--rates"] * (self.rates is not None) + ["--tokens"] * (self.tokens is not None)
        used = suffix in (".xml", ".dot") or self.capacities_as or self.capacities
        if self.model.lower().endswith(".xml") and not given and used:
            return sdf3xml.read_file(self.model)
        return sdf3xml.Sdf3File(read_graph_file(self.model, given), {})

    def _form(self, source: Sdf3File, suffix: str) -> WriteOptions:
        """The options as one value, for a graph whose capacities are those given, or else those of its
        file.
        """
        from csdfgen.cli.graphs import parse_capacities, resolve_capacities
        from sdf3_bridge.sdf3xml import WriteOptions

        given = parse_capacities(self.capacities)
        named = any(given)
        capacities = resolve_capacities(source.graph, given) if named else dict(source.capacities)
        if self.capacities_as is not None and not capacities and not named:
            raise InputError(
                "--capacities-as says how capacities are written, but there are none; add --capacities"
            )
        if self.capacities_as == "sizes" and suffix not in (".xml", ".dot"):
            raise InputError(
                "--capacities-as sizes: only .xml and .dot say the size of a buffer; write channels, or such a file"
            )
        usual: Literal["channels", "sizes"] = "channels" if named and suffix != ".dot" else "sizes"
        return WriteOptions(
            serial="keep" if self.serial is None else "add" if self.serial else "drop",
            overlap=self.overlap,
            gcd=self.gcd,
            capacities=capacities,
            capacities_as=self.capacities_as or usual,
            throughput=source.throughput,
        )

    def _graph_of_model(
        self, asked: Asked, suffix: str
    ) -> tuple[CsdfGraph, Plan | None, dict[str, bool]]:
        """The graph, its plan where a summary reports one, and the branches of Ifs that it has where it has one of each: a
        graph of SDF3 fires all of its actors.
        """
        from csdfgen.backends.registry import choose_backend
        from csdfgen.cli.models import (
            load_network,
            network_graph,
            plan_network,
            resolve_run_options,
        )
        from csdfgen.model.options import CONVERSION
        from csdfgen.phases.graphs import build_graph
        from csdfgen.planning.planner import plan_fixed_heights
        from csdfgen.rewriting.branches import take_larger_branches

        tokens, rates = self.tokens or "elements", self.rates or "exact"
        chosen = asked.given.keys() - {*CONVERSION}
        with show_progress() as progress:
            progress("loading")
            network, taken = load_network(self.model, asked), dict[str, bool]()
            if suffix == ".xml":
                network, taken = take_larger_branches(network)
            if chosen:
                plan = plan_network(network, asked, progress)
            elif self.output is not None:
                progress("converting")
                return network_graph(network, asked, tokens=tokens, rates=rates), None, taken
            else:  # the plan of the graph that is exported, at the same heights
                options = resolve_run_options(asked, progress)
                plan = plan_fixed_heights(network, options, choose_backend(options))
            graph = build_graph(plan.conversion, plan.options, tokens=tokens, rates=rates)
            return graph, plan if self.output is None else None, taken


def _facts(graph: CsdfGraph, plan: Plan | None) -> dict[str, Any]:
    """The graph's sizes and firings, and memory figures where there is a plan."""
    from csdfgen.dataflow.graph import repetition_vector

    firings = repetition_vector(graph)
    return {
        "name": graph.name,
        "actors": [
            {"name": one.name, "function": one.function, "phases": one.phases, "firings": firings[one.name]}
            for one in graph.actors
        ],
        "channels": dict(Counter(channel.kind for channel in graph.channels)),
        "figures": None if plan is None else dict(plan.figures),
    }  # fmt: skip


def _summary(graph: CsdfGraph, plan: Plan | None) -> None:
    """Actors with their phases and rates, then totals; memory figures where there is a plan."""
    from csdfgen.cli.graphs import graph_sizes
    from csdfgen.dataflow.graph import format_runs, repetition_vector

    firings = repetition_vector(graph)
    data = [channel for channel in graph.channels if channel.kind == "data"]
    takes: dict[str, list[str]] = {actor.name: [] for actor in graph.actors}
    gives: dict[str, list[str]] = {actor.name: [] for actor in graph.actors}
    for channel in data:
        takes[channel.target].append(_cut(format_runs(channel.consumption)))
        gives[channel.source].append(_cut(format_runs(channel.production)))
    say(
        table(
            "actor", "function", "> phases", "> firings", "takes", "gives",
            rows=(
                (
                    one.name, one.function, str(one.phases), str(firings[one.name]), " | ".join(takes[one.name]),
                    " | ".join(dict.fromkeys(gives[one.name])),  # readers of one tensor are given the same
                )
                for one in graph.actors
            ),
        )
    )  # fmt: skip
    kinds = Counter(channel.kind for channel in graph.channels)
    produced = sum(sum(c.production) * firings[c.source] // len(c.production) for c in data)
    say(
        f"\n{escape(graph.name)}: {graph_sizes(graph)} ({', '.join(f'{count} {kind}' for kind, count in kinds.items())}), "
        f"{pluralize(sum(firings.values()), 'firing')} and {pluralize(produced, 'token')} an iteration"
    )
    if plan is not None:
        say("", figures_table(plan.figures))


def _cut(text: str) -> str:
    if len(text) <= _WIDEST_RATES:
        return text
    return f"{text[: text.rindex(',', 0, _WIDEST_RATES)]},..."
