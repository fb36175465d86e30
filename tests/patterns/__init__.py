"""Random networks are made of patterns that exporters write: tables of them, by what they are put behind.

A pattern is a function of a network under construction and a value (`growing.Map`, `Tokens` or `Signal`); it adds
nodes and returns what the network goes on with. A new one is a function and its name in the table of its module.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tests.patterns import (
    channels,
    computed,
    convolutional,
    joining,
    products,
    rearranging,
    resampling,
    sequences,
)  # fmt: skip
from tests.patterns.activations import activated, gated, parted, softmax, steps
from tests.patterns.growing import Map, Pattern, Signal, Tokens, Value
from tests.patterns.normalizing import (
    batch_normalized,
    channels_normalized,
    group_normalized,
    layer_normalized,
    normalized_by_length,
    standardized,
)

__all__ = ["PATTERNS"]

_ANY: tuple[Pattern, ...] = (
    activated, gated, parted, softmax, steps, batch_normalized, group_normalized, normalized_by_length,
    standardized, *joining.ANY, *computed.ANY, *rearranging.ANY,
)  # fmt: skip

PATTERNS: Mapping[type[Value], tuple[Pattern, ...]] = MappingProxyType(
    {
        Map: (
            *convolutional.PATTERNS, *joining.MAPS, *channels.MAPS, *products.MAPS, *resampling.MAPS,
            *sequences.FROM_MAPS, *computed.MAPS, *rearranging.MAPS, channels_normalized, *_ANY,
        ),
        Tokens: (*products.TOKENS, *products.TOKENS, *sequences.FROM_TOKENS, computed.masked_in_time,
            layer_normalized, *_ANY),
        Signal: (*sequences.SIGNALS, *sequences.SIGNALS, *sequences.FROM_SIGNALS, computed.masked_in_time, *_ANY),
    }
)  # fmt: skip
"""One that stands there twice is drawn twice as often."""
