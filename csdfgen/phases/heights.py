"""How many rows does a phase of each layer work on? What is asked for, read and settled per actor."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from math import prod
from operator import index
from types import MappingProxyType
from typing import Any

from csdfgen.errors import InputError, option
from csdfgen.files import quoted
from csdfgen.model.frozen import Pickled
from csdfgen.model.network import Layer, Network, Tensor
from csdfgen.ops import operator_of
from csdfgen.ops.base import Mode, height_along

__all__ = [
    "ALL_LAYERS",
    "AUTO_PIXELS",
    "AskedRows",
    "RowSpec",
    "auto_height",
    "parse_rows",
    "rungs",
    "with_low_ends",
]

Asked = int | str | tuple[int, ...]
"""What is asked for a layer: rows a phase, one of `_WORDS`, or the rows of each phase, of which the
last is repeated.
"""

ALL_LAYERS = "*"
"""The name that stands for all other layers in a mapping of slab heights."""

_WORDS = ("auto", "whole", "paper")

_DOUBLED = (1, 7)
"""The least of the heights that are worth trying, which are these doubled again and again."""

_LISTED = 3
"""Layers with rows of their own that are named."""

AUTO_PIXELS = 64
"""Output pixels that a phase has at `auto`: matrix products run near full speed, buffers stay small
(docs/model.md).
"""


@dataclass(frozen=True)
class RowSpec(Pickled):
    """Slab heights as asked for: `general` is a number or a word; `layers` overrides by layer name.

    "auto" and "whole" say themselves; "paper" is a phase for every row of output (docs/model.md),
    so that a layer which could accumulate over the rows of its input has them all at once. A layer
    may also have a tuple: rows of its first phase, of its second, ...; the last one is repeated.
    """

    general: int | str = "auto"
    layers: Mapping[str, Asked] = field(default_factory=lambda: MappingProxyType({}))

    def height(self, name: str, tensor: Tensor, total: int) -> int | tuple[int, ...]:
        """Rows a phase, as `rows.slabs` takes them, of actor `name` whose phases cut `total` rows
        of `tensor`.
        """
        value = self.layers.get(name, self.general)
        if isinstance(value, tuple):
            return value
        if value == "whole":
            return max(1, total)
        if value == "auto":
            return min(total, auto_height(tensor))
        return 1 if value == "paper" else min(total, int(value))

    def check_names(self, network: Network) -> None:
        """Refuse names that are no layer of the network."""
        known = [layer.name for layer in network.layers] + [t.name for t in network.inputs]
        unknown = sorted(set(self.layers) - set(known))
        if unknown:
            near = get_close_matches(unknown[0], known, 3) or known[:3]
            raise InputError(
                f"{option('rows')} names '{unknown[0]}', which is no layer at this {option('fuse')} level; "
                f"{len(known)} layers are known, such as {', '.join(near)}"
            )

    @property
    def brief(self) -> str:
        """As people read it: many layers are counted, not listed."""
        if len(self.layers) <= _LISTED:
            return str(self)
        return f"{self.general} ({len(self.layers)} layers differ)"

    def __str__(self) -> str:
        layers = (
            f"{_escaped(name)}={_written(value)}" for name, value in sorted(self.layers.items())
        )
        return ",".join([str(self.general), *layers])


_ITEMS = re.compile(r"(?:^|,)((?:\\[\\,]|[^,])*)")
"""What stands between commas; a comma behind a backslash is part of a name."""

_ESCAPE = re.compile(r"\\(?:u([0-9a-f]{4})|([\\,]))")


def _escaped(name: str) -> str:
    """A layer's name as it stands in a specification: no bare comma, no blank at an end."""
    text = re.sub(r"[\\,]", r"\\\g<0>", name)
    return re.sub(
        r"^\s+|\s+\Z", lambda blanks: "".join(f"\\u{ord(blank):04x}" for blank in blanks[0]), text
    )


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else match[2], text)


def _written(value: Asked) -> str:
    return "+".join(map(str, value)) if isinstance(value, tuple) else str(value)


AskedRows = int | str | Mapping[str, int | str | Sequence[int]] | RowSpec
"""What `parse_rows` reads."""


def _number(text: str, whole: object) -> int | str:
    if text in _WORDS:
        return text
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < 1:
        raise InputError(
            f"{option('rows', whole)}: '{text}' is not a number of rows above 0, nor one of {', '.join(_WORDS)}"
        )
    return int(text)


def _of_layer(text: str, whole: object) -> Asked:
    """What stands behind "LAYER=": as in general, or rows of each phase such as 24+8."""
    if "+" not in text:
        return _number(text, whole)
    parts = [_number(part.strip(), whole) for part in text.split("+")]
    numbers = tuple(part for part in parts if isinstance(part, int))
    if len(numbers) < len(parts):
        raise InputError(
            f"{option('rows', whole)}: '{text}' adds up what is not a number of rows; write LAYER=24+8"
        )
    return numbers


def parse_rows(rows: AskedRows) -> RowSpec:
    """A row specification from `4`, `"auto"`, `"whole"`, `"paper"`, `"conv1=4,conv2=whole"`,
    `"1,conv1=4"` or `"image=24+8"`; or from a mapping `{"conv1": 4, "image": (24, 8), "*": 1}`, in
    which "*" is all other layers ("auto" without it).

    "24+8" is a first phase of 24 rows and phases of 8 behind it. A comma in the name of a layer is
    written "\\," in a text, as it is in a mapping. Raises InputError.

    >>> str(parse_rows("2,conv1=whole,image=24+8"))
    '2,conv1=whole,image=24+8'
    >>> str(parse_rows({"conv1": "whole", "image": (24, 8), "*": 2}))
    '2,conv1=whole,image=24+8'
    """
    if isinstance(rows, RowSpec):
        _of_mapping(rows.layers)  # made by hand, it may hold anything
        _asked(rows.general, rows.general)
        return rows
    if isinstance(rows, Mapping):
        return _of_mapping(rows)
    if not isinstance(rows, str):
        return RowSpec(_asked(rows, rows))
    return _of_text(rows.strip())


def _asked(value: Any, whole: object) -> int | str:
    """Rows a phase from a number or a word that a program gives."""
    try:
        if isinstance(value, bool):
            raise TypeError("no number of rows, though Python counts with it")
        text = value.strip() if isinstance(value, str) else str(index(value))
    except TypeError:
        raise InputError(
            f"{option('rows', whole)}: {quoted(value)} is not a number of rows above 0, nor one of "
            f"{', '.join(_WORDS)}; or give a mapping from layers to these"
        ) from None
    return _number(text, whole)


def _of_mapping(rows: Mapping[str, int | str | Sequence[int]]) -> RowSpec:
    layers: dict[str, Asked] = {}
    for name, value in rows.items():
        whole = {name: value}  # a mapping may be long; the entry says what is wrong
        if isinstance(value, str):
            layers[name] = _of_layer(value.strip(), whole)
        elif isinstance(value, Sequence) and value:
            layers[name] = _of_layer("+".join(str(_asked(part, whole)) for part in value), whole)
        else:
            layers[name] = _asked(value, whole)
    general = layers.pop(ALL_LAYERS, "auto")
    if isinstance(general, tuple):
        raise InputError(
            f"{option('rows', {ALL_LAYERS: general})}: rows of each phase are for one layer, not for all"
        )
    return RowSpec(general, MappingProxyType(layers))


def _of_text(text: str) -> RowSpec:
    general: int | str | None = None
    layers: dict[str, Asked] = {}
    for item in _ITEMS.findall(text):
        name, equals, value = item.rpartition("=")
        if not equals:
            if general is not None:
                raise InputError(
                    f"{option('rows', text)}: '{general}' and '{item.strip()}' are both for all layers; give one of them"
                )
            general = _number(item.strip(), text)
            continue
        layer = _unescaped(name.strip())
        if layer in layers:
            raise InputError(f"{option('rows', text)}: layer '{layer}' is given twice")
        layers[layer] = _of_layer(value.strip(), text)
    return RowSpec("auto" if general is None else general, MappingProxyType(layers))


def auto_height(tensor: Tensor) -> int:
    """Rows that hold about `AUTO_PIXELS` pixels of a tensor, at least one.

    >>> auto_height(Tensor("x", (1, 64, 28, 28), row_axis=2)), auto_height(Tensor("x", (1, 28, 28, 64), row_axis=1))
    (2, 2)
    """
    axis = tensor.row_axis
    if axis is None:
        return 1
    behind = tensor.shape[axis + 1 :]
    if axis == 1 and len(behind) > 1:
        behind = behind[:-1]  # channels last
    return max(1, round(AUTO_PIXELS / max(1, prod(behind))))


def layer_height(spec: RowSpec, layer: Layer) -> tuple[int | tuple[int, ...], int]:
    """(rows a phase, rows in all) of a layer: of its output, or of the input that it accumulates
    over.
    """
    operator = operator_of(layer)
    mode = operator.mode(layer)
    if mode is Mode.WHOLE:
        return max(1, layer.output.rows), layer.output.rows
    if mode is Mode.ROWS:
        return spec.height(layer.name, layer.output, layer.output.rows), layer.output.rows
    position = operator.accumulate_over
    tensor = layer.inputs[position]
    assert tensor is not None
    rows = height_along(tensor, layer.input_axes[position])
    if spec.layers.get(layer.name, spec.general) == "paper":
        return rows, rows
    return spec.height(layer.name, tensor, rows), rows


def with_low_ends(spec: RowSpec, network: Network) -> RowSpec:
    """What is asked for, but no higher than "auto" where values become smaller elements behind an
    input, or larger ones before an output; and where an input is read by such a layer alone.

    Otherwise an image of float32 would lie beside its bytes, and be most of what an int8 network
    holds at "whole". Who names the layer gets what he asks for.
    """
    more: dict[str, Tensor] = {}
    for layer in network.layers:
        if _narrows_an_input(network, layer):
            x = layer.inputs[0]
            assert x is not None
            more[layer.name] = layer.output
            if len(network.readers[x.name]) == 1:
                more[x.name] = x
        elif _widens_an_output(network, layer):
            more[layer.name] = layer.output
    asked = spec.general
    low = {
        name: "auto"
        for name, tensor in more.items()
        if asked == "whole" or (isinstance(asked, int) and asked > auto_height(tensor))
    }
    return replace(spec, layers=MappingProxyType({**low, **spec.layers})) if low else spec


def _narrows_an_input(network: Network, layer: Layer) -> bool:
    """Whether a layer makes smaller elements of an input, row by row (QuantizeLinear does)."""
    x = layer.inputs[0]
    if x is None or x.name in network.producer:
        return False
    return _changes_elements(layer) and layer.output.itemsize < x.itemsize


def _widens_an_output(network: Network, layer: Layer) -> bool:
    """Whether a layer makes an output of smaller elements, row by row (DequantizeLinear does), that
    nothing else reads.
    """
    x, y = layer.inputs[0], layer.output
    if x is None or y.name not in network.output_tensors or network.readers[y.name]:
        return False
    return _changes_elements(layer) and y.itemsize > x.itemsize


def _changes_elements(layer: Layer) -> bool:
    return (
        len(layer.outputs) == 1
        and sum(tensor is not None for tensor in layer.inputs) == 1
        and operator_of(layer).rowwise
    )


def rungs(network: Network) -> list[int]:
    """Slab heights that are worth trying: 1, 2, 4, ... and between them 7, 14, ..., which divide the maps
    of most networks; all below its tallest tensor.
    """
    tallest = max((tensor.rows for tensor in network.tensors.values()), default=1)
    doubled = (first << times for first in _DOUBLED for times in range(tallest.bit_length()))
    return sorted(rung for rung in doubled if rung < max(2, tallest))
