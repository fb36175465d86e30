"""Gemm and MatMul."""

from __future__ import annotations

from csdfgen.ops.base import Operator

__all__ = ["OPERATORS"]

OPERATORS: tuple[Operator, ...] = ()
