"""Concat, Split, Slice, Pad, Expand, and everything that only renames elements."""

from __future__ import annotations

from csdfgen.ops.base import Operator

__all__ = ["OPERATORS"]

OPERATORS: tuple[Operator, ...] = ()
