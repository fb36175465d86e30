"""How does a frozen value with read-only mappings go to another process, or into a cache?

`types.MappingProxyType` refuses to be pickled and copied. A dataclass that has such fields takes
`Pickled` as its base: the mappings travel as dicts, and are read-only again where they arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, ClassVar

__all__ = ["NOT_PICKLED", "Pickled"]

NOT_PICKLED = MappingProxyType({"pickled": False})
"""Metadata of a field that is not part of the value, such as a cache: it arrives as its default."""


class Pickled:
    """Base of frozen dataclasses, with slots or without, that `pickle` and `copy` take as they are.

    Only fields travel; what a `cached_property` holds is computed again.
    """

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        values = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.metadata.get("pickled", True)
        }
        frozen = tuple(n for n, value in values.items() if isinstance(value, MappingProxyType))
        return _made_again, (type(self), {**values, **{n: dict(values[n]) for n in frozen}}, frozen)


def _made_again(
    kind: Callable[..., Any], values: Mapping[str, Any], frozen: tuple[str, ...]
) -> Any:
    """The value, through its constructor."""
    return kind(**{**values, **{name: MappingProxyType(values[name]) for name in frozen}})
