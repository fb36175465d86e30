"""The policies of serving, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import get_type_hints

from csdfgen.errors import InputError
from csdfgen.model.units import parse_time
from csdfgen.serving.policies.adaptive import Adaptive
from csdfgen.serving.policies.base import Policy
from csdfgen.serving.policies.lbci import Lbci, LbciPaper
from csdfgen.serving.policies.usual import Greedy, Serial, Window

__all__ = ["POLICIES", "Policy", "parse_policy"]

POLICIES: Mapping[str, type[Policy]] = MappingProxyType(
    {one.name: one for one in (Serial, Window, Greedy, LbciPaper, Lbci, Adaptive)}
)


def parse_policy(text: str) -> Policy:
    """A policy from its name and settings. Raises InputError.

    >>> parse_policy("window:m=4,delay=20ms")
    Window(m=4, delay=0.02)
    """
    name, _, settings = text.partition(":")
    if name not in POLICIES:
        raise InputError(f"policy '{name[:40]}' is none of {', '.join(POLICIES)}")
    kind = POLICIES[name]
    hints = {one.name: get_type_hints(kind)[one.name] for one in fields(kind)}
    given: dict[str, object] = {}
    for setting in settings.split(",") if settings else ():
        key, _, value = setting.partition("=")
        if key not in hints:
            known = ", ".join(hints) or "none"
            raise InputError(f"'{setting[:40]}' is no setting of the policy {name}; it has {known}")
        given[key] = _value(hints[key], key, value)
    return kind(**given)


def _value(kind: object, key: str, text: str) -> object:
    """The value of a setting: a whole number, a time, a flag, or a share."""
    if kind is int:
        if not (text.isascii() and text.isdigit() and 0 < int(text[:9]) < 10**6):
            raise InputError(f"{key}={text[:40]}: a whole number above 0 is needed")
        return int(text)
    if kind is bool:
        if text not in ("yes", "no"):
            raise InputError(f"{key}={text[:40]}: yes or no is needed")
        return text == "yes"
    return parse_time(text, key)
