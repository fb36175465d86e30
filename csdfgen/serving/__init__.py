"""Serving: requests join batches that run, in the server and in its simulator.

with csdfgen.serving.Engine(network, policy="adaptive", max_batch=8) as engine:
    y = engine.submit(images, deadline=0.5).result()
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from csdfgen.serving.engine import Answer, Engine
    from csdfgen.serving.service import Service, plan

__all__ = ["Answer", "Engine", "Service", "plan"]

_HOMES = {"Answer": "engine", "Engine": "engine", "Service": "service", "plan": "service"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'csdfgen.serving' has no attribute {name!r}")
    return getattr(import_module(f"csdfgen.serving.{_HOMES[name]}"), name)
