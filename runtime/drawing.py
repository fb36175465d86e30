"""Random inputs that a network can take: what does it measure, index or mask with an input?

An integer, or one number for each image, is followed through arithmetic with constants to where its values must fit: an
axis that they index, positions that a length is compared with, a mask that is added to scores. Random values are among
those that fit everywhere. So a length covers at least half of its axis: of length 0, a network masks all that it computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import InputError
from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Network, Shape, Tensor

Span = tuple[float, float]
"""Lowest and highest random value."""

SYMMETRIC: Span = (-1.0, 1.0)

_INTEGERS = 10
"""How many values an integer that is no length takes at random, the least first."""

_MASKING = 1e3
"""What a mask adds to scores where they do not count has at least this size."""

_MOVED_NAMES = "Cast Expand Flatten Gather Identity Reshape Slice Squeeze Transpose Unsqueeze"
_MOVED = frozenset(_MOVED_NAMES.split())
"""Operators of which the first operand's values are those of the result, if not rounded."""

_COMPUTED: Mapping[str, Callable[..., np.ndarray]] = MappingProxyType(
    {
        "Add": np.add,
        "Ceil": np.ceil,
        "Div": np.divide,
        "Floor": np.floor,
        "Max": np.maximum,
        "Min": np.minimum,
        "Mod": np.mod,
        "Mul": np.multiply,
        "Neg": np.negative,
        "Round": np.rint,
        "Sub": np.subtract,
    }
)
"""Operators whose results are followed, where their other operand is one constant."""

_ORDERED = frozenset(["Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
_INDEXED = frozenset(["Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND"])


def random_inputs(network: Network, seed: int, span: Span = SYMMETRIC) -> dict[str, np.ndarray]:
    """Seeded values for every input: floats uniform in the span, or in the range of the integers that they become at once;
    bytes of their whole range; other integers, booleans and numbers of an image among those that the network can take.
    """
    forms = {one.name: (network.whole_shape(one), np.dtype(one.dtype)) for one in network.inputs}
    return draw_values(forms, input_ranges(network, span), seed)


def input_ranges(network: Network, span: Span = SYMMETRIC) -> dict[str, dict[str, list[Any]]]:
    """What `random_inputs` draws each input from, as JSON: {"values": ...}, or {"span": [lowest, highest]} of floats and of
    whole numbers.
    """
    from csdfgen.ops.integers import limits

    fitting, spans = _fitting(network), _quantized_spans(network)

    def of(tensor: Tensor) -> dict[str, list[Any]]:
        dtype = np.dtype(tensor.dtype)
        if tensor.name in fitting:
            return {"values": fitting[tensor.name].tolist()}
        if dtype.kind not in "biu":
            return {"span": [*spans.get(tensor.name, span)]}
        low, high = (0, 1) if dtype.kind == "b" else limits(dtype.name)
        return {"span": [low, high] if dtype.itemsize == 1 else [0, _INTEGERS - 1]}

    return {tensor.name: of(tensor) for tensor in network.inputs}


def draw_values(
    forms: Mapping[str, tuple[Shape, np.dtype[Any]]], ranges: Mapping[str, Any], seed: int
) -> dict[str, np.ndarray]:
    """Seeded values for inputs. forms: shape and type by name. ranges: as `input_ranges` gives them, perhaps of a file. Raises
    InputError for ranges that are none.
    """
    rng = np.random.default_rng(seed)

    def values(shape: Shape, dtype: np.dtype[Any], given: Mapping[str, Any]) -> np.ndarray:
        if "values" in given:
            known = np.array(given["values"])
            return known[rng.integers(0, len(known), shape)].astype(dtype)
        low, high = given["span"]
        if dtype.kind not in "biu":
            return rng.uniform(low, high, shape).astype(dtype)
        return rng.integers(low, high + 1, shape).astype(dtype)

    found = {}
    for name, form in forms.items():
        try:
            found[name] = values(*form, ranges[name])
        except (ArithmeticError, LookupError, TypeError, ValueError):
            raise InputError(f"has no range of random values for input '{name}'") from None
    return found


def _quantized_spans(network: Network) -> dict[str, Span]:
    """Input -> the values of the integers that it is quantized to."""
    from csdfgen.ops.integers import limits

    inputs, found = {tensor.name for tensor in network.inputs}, {}
    for layer in network.layers:
        form, first = layer.attributes.get("format"), layer.inputs[0] if layer.inputs else None
        if layer.op_type != "QuantizeLinear" or first is None or first.name not in inputs:
            continue
        if isinstance(form, Format) and form.scale is not None and form.zero_point is not None:
            low, high = (form.scale[0] * (one - form.zero_point[0]) for one in limits(form.dtype))
            found[first.name] = (low, high)
    return found


def _fitting(network: Network) -> dict[str, np.ndarray]:
    """Input -> its values that fit wherever the network uses them; of the smallest ones, unless it is a length."""
    integers = {t.name for t in network.inputs if np.dtype(t.dtype).kind in "iu"}
    # candidates: integers, and for a float also fractions of a length
    counted = np.append(np.arange(1024.0), np.geomspace(1024, 2**31 - 1, 20_000).round())
    counted = counted[np.diff(counted, prepend=-1) > 0]
    shares = np.concatenate([np.arange(1, 1000) / 1000, counted])
    values = {
        t.name: counted[np.iinfo(t.dtype).max >= counted] if t.name in integers else shares
        for t in network.inputs
        if t.name in integers or (t.dtype[:5] == "float" and prod(t.shape[1:]) == 1)
    }
    followed = {name: (name, candidates) for name, candidates in values.items()}
    left: dict[str, np.ndarray] = {}
    lengths: set[str] = set()
    for layer in network.layers:
        made: tuple[str, np.ndarray] | None = None
        for part in (layer, *layer.epilogue):  # which reads what the part before it made
            before, made = made, None
            for position, operand in enumerate(part.inputs):
                if operand is None:
                    continue
                within = None if operand.name in network.tensors else before
                source = followed.get(operand.name, within)
                if source is None:
                    continue
                name, results = source
                for fits, length in _limits(part, position, results):
                    both = left.get(name, np.ones(len(results), np.bool_)) & fits
                    if both.any():
                        left[name] = both
                        lengths |= {name} if length else set()
                further = _followed(part, position, results)
                made = made if further is None else (name, further)
        if made is not None:
            followed.update((tensor.name, made) for tensor in layer.outputs)
    return {
        name: values[name][mask][: None if name in lengths else _INTEGERS]
        for name, mask in left.items()
        if name in lengths or name in integers
    }


def _followed(layer: Layer, position: int, values: np.ndarray) -> np.ndarray | None:
    """The results of a layer for each candidate, with its values as an operand; None where they depend on more."""
    if layer.op_type in _MOVED and position == 0:
        found = values
    elif layer.op_type in _COMPUTED:
        others = list(layer.constants.values())
        if sum(one is not None for one in layer.inputs) > 1 or any(c.size != 1 for c in others):
            return None
        operands = [values, *(one.astype(np.float64).reshape(()) for one in others)]
        with np.errstate(all="ignore"):
            found = _COMPUTED[layer.op_type](*(operands if position == 0 else operands[::-1]))
    else:
        return None
    return np.trunc(found) if np.dtype(layer.output.dtype).kind in "iu" else found


def _limits(layer: Layer, position: int, values: np.ndarray) -> Iterator[tuple[np.ndarray, bool]]:
    """Which candidates fit where a layer reads them, and whether they are lengths there."""
    kind, other = layer.op_type, layer.constants.get(1 - position)
    if kind in _INDEXED and position == 1:
        data = layer.inputs[0]
        shape = layer.constants[0].shape if data is None else data.shape
        if kind.endswith("ND"):
            batch = int(layer.attributes.get("batch_dims", 0))
            sizes = shape[batch : batch + layer.inputs[1].shape[-1]]  # type: ignore[union-attr]
        else:
            sizes = (shape[int(layer.attributes["axis"])],)
        yield (values >= 0) & (values < min(sizes)), False
    elif kind == "OneHot" and position == 0:
        yield (values >= 0) & (values < layer.attributes["depth"]), False
    elif kind in _ORDERED and other is not None and len(np.unique(other)) > 1:
        positions = other.astype(np.float64)
        yield (values > np.median(positions)) & (values <= positions.max() + 1), True
    elif kind == "Equal" and other is not None and len(np.unique(other)) > 1:
        yield (values >= other.min()) & (values <= other.max()), False
    elif kind == "Cast" and layer.output.dtype == "bool":
        yield (values == 0) | (values == 1), False
    elif kind == "Div" and position == 1:
        yield values > 0, False
    elif kind == "Add" and other is None and np.abs(values[:2]).max() >= _MASKING:
        yield values <= 0, False
