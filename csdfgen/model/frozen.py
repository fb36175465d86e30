"""Frozen dataclasses with read-only mappings that can be pickled and copied.

`types.MappingProxyType` can be neither pickled nor copied. A dataclass with such fields has `Pickled` as its base, which
pickles the mappings as dicts and makes them read-only again when it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, ClassVar


class Pickled:
    """Base of frozen dataclasses, with or without slots, that can be pickled and copied.

    Only fields are pickled; a `cached_property` is computed again.
    """

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        frozen = tuple(n for n, value in values.items() if isinstance(value, MappingProxyType))
        return _made_again, (type(self), {**values, **{n: dict(values[n]) for n in frozen}}, frozen)


def _made_again(
    kind: Callable[..., Any], values: Mapping[str, Any], frozen: tuple[str, ...]
) -> Any:
    """The value, made by its constructor."""
    return kind(**{**values, **{name: MappingProxyType(values[name]) for name in frozen}})
