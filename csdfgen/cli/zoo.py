"""`csdfgen zoo`: which networks are built in, what does each hold, and who published it? Lists,
shows or writes them.

Everything shown is counted from graphs that are built without the values of their weights, which
takes milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from csdfgen.cli.command import Command, argument
from csdfgen.cli.options import JSON, OUTPUT, check_suffix
from csdfgen.cli.terminal import dim_text, escape, mebibytes, say, say_json, table
from csdfgen.errors import prefix_errors
from csdfgen.model.options import declare
from csdfgen.model.units import pluralize

if TYPE_CHECKING:
    from zoo_models import Counts, Published, ZooEntry


_FLOAT_BYTES = 4

_NOTES = (
    "parameters: learned values, without BatchNormalization's running means and variances",
    "MACs: multiply-accumulates of convolutions and fully connected layers, at that input size",
    "activations: elements of all tensors that are computed, one buffer a tensor and no layers fused; 4 bytes each",
)

_ORIGINS = {
    "exact": "printed in full",
    "rounded": "printed with few digits",
    "derived": "printed nowhere in full, counted from published shapes",
    "recalled": "from a publication that was not at hand again",
}
"""How a source gives a number -> in words."""

_COMPARISONS = {
    "graph": "operation by operation with",
    "outputs": "same outputs for the same weights as",
    "shapes": "layer by layer with",
    "text": "with the text and figures of",
}
"""How a network was compared with a public definition -> in words that end in front of its name."""


@dataclass(frozen=True, kw_only=True)
class Zoo(Command):
    """List the built-in networks, show one with its sources, or write one as ONNX.

    zoo:NAME[@HEIGHTxWIDTH] can replace a model file: csdfgen run zoo:squeezenet1_1 --check.
    """

    examples = (
        "csdfgen zoo",
        "csdfgen zoo densenet121",
        "csdfgen zoo resnet18@160x256 -o resnet18.onnx --seed 1",
    )

    name: str | None = argument(
        "NAME[@HEIGHTxWIDTH]", "One network, at another image size.", default=None
    )
    output: Path | None = declare(
        "Write the network as an ONNX file.", None, "FILE.onnx", names=OUTPUT
    )
    seed: int | None = declare("Seed of the weights in the file.", None, "N", low=0, shown="0")
    as_json: bool = declare("Print JSON: a list, or one object for one network.", False, names=JSON)

    def run(self) -> None:
        """List, show or write. Raises ModelError (no such network or size), InputError (the file)."""
        if self.name is None and self.output is not None:
            raise typer.BadParameter(
                "which network? csdfgen zoo NAME -o FILE.onnx writes one", param_hint="--output"
            )
        if self.output is None and self.seed is not None:
            raise typer.BadParameter("seeds the weights that -o writes", param_hint="--seed")
        if self.name is None:
            self._list()
        else:
            self._show(self.name)

    def _list(self) -> None:
        """All networks at the sizes they are built for unless another is asked for."""
        from zoo_models import ZOO

        found = [(one, *one.counted(one.height, one.width)) for one in ZOO.values()]
        if self.as_json:
            say_json([one.to_json(shape, counts) for one, shape, counts in found])
            return
        rows = (
            (
                one.name, one.family, one.task, _sizes(shape), counts.parameters, counts.macs,
                counts.activations, dim_text("; ".join(one.published.differences(counts, (one.height, one.width)))),
            )
            for one, shape, counts in found
        )  # fmt: skip
        numbers = ("> parameters", "> MACs", "> activations")
        say(
            table("name", "family", "task", "input", *numbers, "published otherwise", rows=rows),
            f"\n{pluralize(len(ZOO), 'network')}; csdfgen zoo NAME shows the sources of one",
            *_NOTES,
        )

    def _show(self, name: str) -> None:
        """One network with what is published of it, or written as an ONNX file, whole or not at all."""
        from csdfgen.files import write_bytes
        from csdfgen.reading.zoo import build, look_up

        with prefix_errors(name):
            entry, height, width = look_up(name)
        output, seed = self.output, self.seed or 0
        check_suffix(output, "a network", ".onnx")
        shape, counts = entry.counted(height, width)
        data = b"" if output is None else build(name, seed).SerializeToString()
        if output is not None:
            write_bytes(output, data)
        if self.as_json:
            written = {"file": str(output), "bytes": len(data), "seed": seed} if output else {}
            smallest = {"smallest": list(entry.smallest())}
            say_json({**entry.to_json(shape, counts), **smallest, **written})
        elif output is not None:
            parameters = pluralize(counts.parameters, "parameter")
            say(
                f"{escape(output)}: {entry.name}, input {_sizes(shape)}, {parameters}, {len(data):,} bytes"
            )
        else:
            _show_network(entry, shape, counts)


def _sizes(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _show_network(entry: ZooEntry, shape: tuple[int, ...], counts: Counts) -> None:
    low, high = entry.pixels
    smallest = "at least {}x{}".format(*entry.smallest())
    multiples = f", rows and columns multiples of {entry.multiple}" if entry.multiple > 1 else ""
    statistics = (
        f"and {counts.statistics:,} running means and variances" if counts.statistics else ""
    )
    size = mebibytes(counts.activations * _FLOAT_BYTES)
    rows = [
        ("input", _sizes(shape), f"values from {low:g} to {high:g}; {smallest}{multiples}"),
        ("parameters", counts.parameters, statistics),
        ("MACs", counts.macs, "of convolutions and fully connected layers"),
        (
            "activations",
            counts.activations,
            f"elements of all computed tensors, {size} MiB as float32",
        ),
        ("nodes", counts.nodes),
    ]
    say(f"{entry.name}: {entry.family}, {entry.task}\n")
    say(table("counted", "> value", "", rows=rows), "")
    _show_published(entry.published)


def _show_published(published: Published) -> None:
    statistics = ", running means and variances among them" if published.statistics else ""
    uncounted = published.uncounted_macs
    without = f", without {uncounted:,} of its layers" if uncounted else ""
    rows = [
        ("input", "{}x{}".format(*published.size)),
        ("parameters", published.parameters, _ORIGINS[published.parameters_are] + statistics),
        ("MACs", published.macs, _ORIGINS[published.macs_are] + without),
    ]
    compared = f"{_COMPARISONS[published.compared]} {published.definition or published.source}"
    say(
        table("published", "> value", "", rows=rows),
        f"\nsource:   {published.source}",
        f"compared: {compared}",
        *[f"notes:    {published.notes}"] * bool(published.notes),
    )
