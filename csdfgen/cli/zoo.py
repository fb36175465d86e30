"""`csdfgen zoo`: which networks are built in, what does each hold, and who published it? Lists,
shows or writes them.

Everything shown is counted from graphs that are built without the values of their weights, which
takes milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from rich.text import Text

from csdfgen.cli.terminal import console, counted, mebibytes, table
from csdfgen.errors import CsdfgenError, InputError
from csdfgen.files import write_bytes
from csdfgen.reading.zoo import build, look_up
from zoo_models import ZOO, Counts, Published, ZooEntry, count

__all__ = ["differences", "list_zoo", "show_network"]

_ROUNDING = 0.005
"""A published figure of few digits is the same as one that is nearer than this part of it."""

_FLOAT_BYTES = 4

_NOTES = (
    "parameters: learned values, without BatchNormalization's running means and variances",
    "MACs: multiply-accumulates of convolutions and fully connected layers, at that input size",
    "activations: elements of all tensors that are computed, one buffer a tensor and no layers fused; 4 bytes each",
)


def list_zoo(as_json: bool) -> None:
    """Print all networks at the sizes they are built for unless told otherwise."""
    measured = {
        entry: _model_and_counts(entry, entry.height, entry.width) for entry in ZOO.values()
    }
    if as_json:
        print(json.dumps([_values(entry, *found) for entry, found in measured.items()], indent=2))
        return
    right = ("parameters", "MACs", "activations")
    rows = table("name", "family", "task", "input", *right, "published otherwise", right=right)
    for entry, (model, counts) in measured.items():
        said = "; ".join(differences(entry, counts, (entry.height, entry.width)))
        numbers = (f"{n:,}" for n in (counts.parameters, counts.macs, counts.activations))
        rows.add_row(
            entry.name,
            entry.family,
            entry.task,
            _sizes(_input_shape(model)),
            *numbers,
            Text(said, style="dim"),
        )
    out = console()
    out.print(rows)
    out.print(f"\n{counted(len(ZOO), 'network')}; csdfgen zoo NAME shows the sources of one")
    for line in _NOTES:
        out.print(line)


def show_network(name: str, output: Path | None, seed: int, as_json: bool) -> None:
    """Print one network with what is published of it, or write it as an ONNX file, whole or not at
    all.

    Raises ModelError (no such network or size), InputError (the file).
    """
    try:
        entry, height, width = look_up(name)
    except CsdfgenError as error:
        raise error.at(name) from None
    if output is not None and output.suffix.lower() != ".onnx":
        raise InputError("a network is written as .onnx", where=str(output))
    model, counts = _model_and_counts(entry, height, width)
    size = _write(name, output, seed) if output is not None else 0
    if as_json:
        written = {"file": str(output), "bytes": size, "seed": seed} if output is not None else {}
        print(
            json.dumps(
                {**_values(entry, model, counts), "smallest": list(entry.smallest()), **written},
                indent=2,
            )
        )
    elif output is not None:
        shape = _sizes(_input_shape(model))
        console().print(
            f"{output}: {entry.name}, input {shape}, {counted(counts.parameters, 'parameter')}, {size:,} bytes"
        )
    else:
        _print_network(entry, model, counts)


def differences(entry: ZooEntry, counts: Counts, size: tuple[int, int]) -> Iterator[str]:
    """What the source of a network gives that is not what is counted at an image size (rows,
    columns), and why.
    """
    published = entry.published
    if not _same(counts.parameters, published.parameters, published.parameters_are):
        said = (
            "with running means and variances"
            if published.statistics
            else "by another size of the image"
        )
        yield f"{published.parameters:,} parameters {said}"
    if not _same(counts.macs, published.macs, published.macs_are):
        at = "" if size == published.size else " at {}x{}".format(*published.size)
        without = (
            f" without {published.uncounted_macs:,} of its layers"
            if published.uncounted_macs
            else ""
        )
        yield f"{published.macs:,} MACs{at}{without}"


def _same(found: int, printed: int, how: str) -> bool:
    return (
        abs(found - printed) <= _ROUNDING * printed
        if how in ("rounded", "recalled")
        else found == printed
    )


def _model_and_counts(entry: ZooEntry, height: int, width: int) -> tuple[onnx.ModelProto, Counts]:
    """The network without weights, and what is counted in it."""
    model = entry.build(height, width, weights=False)
    return model, count(model)


def _input_shape(model: onnx.ModelProto) -> tuple[int, ...]:
    return tuple(dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim)


def _sizes(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _write(name: str, output: Path, seed: int) -> int:
    """Write the file; its size in bytes."""
    data = build(name, seed).SerializeToString()
    write_bytes(output, data)
    return len(data)


def _values(entry: ZooEntry, model: onnx.ModelProto, counts: Counts) -> dict[str, Any]:
    """One network as JSON values."""
    published = entry.published
    return {
        "name": entry.name,
        "family": entry.family,
        "task": entry.task,
        "input": list(_input_shape(model)),
        "pixels": list(entry.pixels),
        "multiple": entry.multiple,
        "parameters": counts.parameters,
        "running_statistics": counts.statistics,
        "macs": counts.macs,
        "activations": counts.activations,
        "nodes": counts.nodes,
        "published": {
            "size": list(published.size),
            "parameters": published.parameters,
            "parameters_are": published.parameters_are,
            "with_running_statistics": published.statistics,
            "macs": published.macs,
            "macs_are": published.macs_are,
            "uncounted_macs": published.uncounted_macs,
            "source": published.source,
            "notes": published.notes,
            "compared": published.compared,
            "definition": published.definition or published.source,
        },
    }


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
"""How a network was held against a public definition -> in words that end in front of its name."""


def _print_network(entry: ZooEntry, model: onnx.ModelProto, counts: Counts) -> None:
    low, high = entry.pixels
    smallest = "at least {}x{}".format(*entry.smallest())
    multiples = f", rows and columns multiples of {entry.multiple}" if entry.multiple > 1 else ""
    statistics = (
        f"and {counts.statistics:,} running means and variances" if counts.statistics else ""
    )
    size = mebibytes(counts.activations * _FLOAT_BYTES)
    lines = table("counted", "value", "", right=("value",))
    lines.add_row(
        "input",
        _sizes(_input_shape(model)),
        f"values from {low:g} to {high:g}; {smallest}{multiples}",
    )
    lines.add_row("parameters", f"{counts.parameters:,}", statistics)
    lines.add_row("MACs", f"{counts.macs:,}", "of convolutions and fully connected layers")
    lines.add_row(
        "activations",
        f"{counts.activations:,}",
        f"elements of all computed tensors, {size} MiB as float32",
    )
    lines.add_row("nodes", f"{counts.nodes:,}")
    out = console()
    out.print(f"{entry.name}: {entry.family}, {entry.task}\n")
    out.print(lines)
    out.print()
    _print_published(entry.published)


def _print_published(published: Published) -> None:
    statistics = ", running means and variances among them" if published.statistics else ""
    without = (
        f", without {published.uncounted_macs:,} of its layers" if published.uncounted_macs else ""
    )
    lines = table("published", "value", "", right=("value",))
    lines.add_row("input", "{}x{}".format(*published.size))
    lines.add_row(
        "parameters", f"{published.parameters:,}", _ORIGINS[published.parameters_are] + statistics
    )
    lines.add_row("MACs", f"{published.macs:,}", _ORIGINS[published.macs_are] + without)
    out = console()
    out.print(lines)
    out.print(f"\nsource:   {published.source}")
    out.print(
        f"compared: {_COMPARISONS[published.compared]} {published.definition or published.source}"
    )
    if published.notes:
        out.print(f"notes:    {published.notes}")
