"""How are options that belong together declared once? As a dataclass, which a command takes whole.

Its fields are annotated as parameters of a typer command are, and have defaults. Typer wants a
parameter an option, so `grouped` spells the groups out for it and puts them together again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints

__all__ = ["grouped"]


def grouped(function: Callable[..., None]) -> Callable[..., None]:
    """A command that takes the options of every group among a function's parameters, in its place.

    Raises ValueError for an option that two groups declare.
    """
    groups: dict[str, type] = {}
    options: list[Parameter] = []
    for name, own in signature(function, eval_str=True).parameters.items():
        if isinstance(own.annotation, type) and is_dataclass(own.annotation):
            groups[name] = own.annotation
            options += _options(own.annotation)
        else:
            options.append(own.replace(kind=Parameter.KEYWORD_ONLY))

    @functools.wraps(function)
    def command(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        function(**given)

    spelled = Signature(options, return_annotation=None)
    command.__signature__ = spelled  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in options}
    return command


def _options(group: Any) -> list[Parameter]:
    """The fields of a group as parameters."""
    kinds = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=kinds[field.name],
        )
        for field in fields(group)
    ]
