"""Networks that are built here from nothing but numbers: name -> function that makes the ONNX model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import onnx

__all__ = ["ZOO"]

ZOO: Mapping[str, Callable[[], onnx.ModelProto]] = MappingProxyType({})
